"""Tables without borders: columns two spaces apart, headings in capitals."""

import re
from collections.abc import Container, Sequence

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LEAST_PROSE = 16
"""Characters of the last column that stay: any reason's code is still told from others."""


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, left: Container[int] = (0,)) -> str:
    """Render rows under their headings; columns in `left` are left-aligned, the rest right-aligned."""
    lines = [heading, *rows]
    widths = [max(_width(line[i]) for line in lines) for i in range(len(heading))]
    return "\n".join(_line(line, widths, left) for line in lines)


def fitted(
    heading: Sequence[str], rows: Sequence[Sequence[str]], width: int, spare: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Leave out columns that can be spared, the first named first, until the table fits; then cut its
    last column, which is prose."""
    lines = [list(heading), *(list(row) for row in rows)]
    for name in spare:
        if name in lines[0] and _least(lines) > width:
            at = lines[0].index(name)
            lines = [[*line[:at], *line[at + 1 :]] for line in lines]
    room = max(_LEAST_PROSE, width - _least([[*line[:-1], ""] for line in lines]))
    for line in lines:
        if _width(line[-1]) > room:
            line[-1] = line[-1][: room - 1] + "…"
    return lines[0], lines[1:]


def _least(lines: Sequence[Sequence[str]]) -> int:
    """Width of a whole table, with its last column cut as far as it may be."""
    *others, last = (max(_width(line[i]) for line in lines) for i in range(len(lines[0])))
    return sum(width + 2 for width in others) + min(last, _LEAST_PROSE)


def _line(cells: Sequence[str], widths: Sequence[int], left: Container[int]) -> str:
    padded = []
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        gap = " " * (width - _width(cell))
        padded.append(cell + gap if i in left else gap + cell)
    return "  ".join(padded).rstrip()


def _width(cell: str) -> int:
    """Width on screen: colour codes take none."""
    return len(_COLOUR.sub("", cell)) if "\x1b" in cell else len(cell)
