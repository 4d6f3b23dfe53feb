"""Tables without borders: columns two spaces apart, headings in capitals."""

from collections.abc import Container, Sequence


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, left: Container[int] = (0,)) -> str:
    """Rows under their headings; the columns `left` stand to the left, the rest to the right."""
    lines = [heading, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heading))]
    return "\n".join(_line(line, widths, left) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], left: Container[int]) -> str:
    padded = [
        cell.ljust(width) if i in left else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()
