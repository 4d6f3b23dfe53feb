"""`muster accuracy`: a table by group, and a reliability diagram."""

from collections.abc import Iterator, Sequence

from muster.cli.render.table import table
from muster.cli.render.words import counted
from muster.wire.api.foresight_records import AccuracyGroup, AccuracyRecord, ReliabilityPoint

HEADING = ("BY", "GROUP", "FORECASTS", "COVERED", "EARLY", "LATE", "ERROR", "BIAS", "WIDTH")
HEIGHT, COLUMN = 10, 5
"""Lines of the diagram, and characters for each of its points."""


def accuracy_page(record: AccuracyRecord) -> str:
    """Render how forecasts came true."""
    if not record.groups:
        return (
            f"no forecast of a {record.what} has been scored yet: that happens when jobs "
            f"{'start' if record.what == 'start' else 'end'}"
        )
    head = f"{counted(record.forecasts, 'forecast')} of a job's {record.what} scored"
    if record.unknown:
        head += f"; {record.unknown:,} more said that it is unknown"
    rows = [_row(each) for each in record.groups]
    lines = [head, table(HEADING, rows, left=(0, 1)), "", *_diagram(record.reliability)]
    return "\n".join(lines)


def _row(group: AccuracyGroup) -> tuple[str, ...]:
    return (
        group.by,
        "" if group.by == "all" else group.name,
        f"{group.forecasts:,}",
        f"{group.covered:.0%}",
        f"{group.early:.0%}",
        f"{group.late:.0%}",
        f"{group.error:.0%}",
        f"{group.bias:+.0%}",
        f"x{group.width:.1f}",
    )


def _diagram(points: Sequence[ReliabilityPoint]) -> Iterator[str]:
    """Yield the diagram: `*` what came, `.` what would be right, `@` both."""
    yield "OUTCOMES BEFORE THE QUANTILE: * came, . as said, @ both"
    for level in range(HEIGHT, -1, -1):
        cells = "".join(_cell(point, level).center(COLUMN) for point in points)
        yield f"{level * 100 // HEIGHT:4d}% |{cells.rstrip()}"
    yield f"{'':5} +{'-' * COLUMN * len(points)}"
    yield f"{'':7}" + "".join(f"{point.said:.0%}".center(COLUMN) for point in points)


def _cell(point: ReliabilityPoint, level: int) -> str:
    came, said = (round(part * HEIGHT) == level for part in (point.came, point.said))
    return "@" if came and said else "*" if came else "." if said else ""
