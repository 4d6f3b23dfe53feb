"""Tables without borders: columns two spaces apart, headings in capitals."""

import re
from collections.abc import Container, Sequence

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, left: Container[int] = (0,)) -> str:
    """Render rows under their headings; columns in `left` are left-aligned, the rest right-aligned."""
    lines = [heading, *rows]
    widths = [max(_width(line[i]) for line in lines) for i in range(len(heading))]
    return "\n".join(_line(line, widths, left) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], left: Container[int]) -> str:
    padded = []
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        gap = " " * (width - _width(cell))
        padded.append(cell + gap if i in left else gap + cell)
    return "  ".join(padded).rstrip()


def _width(cell: str) -> int:
    """Width on screen: colour codes take none."""
    return len(_COLOUR.sub("", cell)) if "\x1b" in cell else len(cell)
