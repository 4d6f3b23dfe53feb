"""Text plots: each character is a Braille cell of two by four dots."""

import math
from collections.abc import Mapping
from itertools import pairwise
from statistics import fmean

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of the dot in row y, column x (Unicode 2800, "Braille Patterns")."""


def draw(points: Mapping[int, float], width: int = 60, height: int = 8) -> list[str]:
    """Draw a plot with its scale; empty with fewer than two finite points."""
    finite = {x: y for x, y in points.items() if math.isfinite(y)}
    if len(finite) < 2:
        return []
    means = _means(finite, 2 * width)
    low, high = min(means.values()), max(means.values())
    rows = 4 * height
    # Row 0 is the top. A flat curve runs along the bottom.
    level = {x: round((high - y) / ((high - low) or 1.0) * (rows - 1)) for x, y in means.items()}
    if high == low:
        level = dict.fromkeys(level, rows - 1)
    cells = _dots(level, width, height)
    scale = [f"{high:.4g}", *[""] * (height - 2), f"{low:.4g}"]
    margin = max(map(len, scale))
    lines = [
        f"{text:>{margin}} │{''.join(row).rstrip(chr(0x2800))}"
        for text, row in zip(scale, cells, strict=True)
    ]
    first, last = f"{min(finite)}", f"{max(finite)}"
    gap = max(1, width - len(first) - len(last))
    return [*lines, f"{'':>{margin}} └{'─' * width}", f"{'':>{margin}}  {first}{' ' * gap}{last}"]


def _means(points: Mapping[int, float], columns: int) -> dict[int, float]:
    """Return the mean of each column's points."""
    first, last = min(points), max(points)
    found: dict[int, list[float]] = {}
    for x, y in points.items():
        found.setdefault((x - first) * (columns - 1) // (last - first), []).append(y)
    return {column: fmean(values) for column, values in sorted(found.items())}


def _dots(level: Mapping[int, int], width: int, height: int) -> list[list[str]]:
    """Return the cells, with a dot per column and lines between columns."""
    bits = [[0] * width for _ in range(height)]

    def dot(x: int, y: int) -> None:
        bits[y // 4][x // 2] |= _DOTS[y % 4][x % 2]

    columns = list(level.items())
    dot(*columns[0])
    for (x, y), (next_x, next_y) in pairwise(columns):
        steps = max(next_x - x, abs(next_y - y))
        for part in range(1, steps + 1):
            dot(x + round((next_x - x) * part / steps), y + round((next_y - y) * part / steps))
    return [[chr(0x2800 + cell) for cell in row] for row in bits]
