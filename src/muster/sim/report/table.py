"""Policies side by side as text, Markdown, JSON, and the cells for the page."""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from muster.sim.report.bootstrap import Interval
from muster.sim.report.compare import Comparison, Row

NONE = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, its meaning, and how a row fills it."""

    heading: str
    meaning: str
    cell: Callable[[Row], str]
    brief: bool = False
    """Whether it is in the short table."""


def columns(comparison: Comparison) -> tuple[Column, ...]:
    """Return all columns after the policy's name. Times in s."""
    return (
        Column("MEAN", "Mean completion time, from submission to end, in s.", _figure("mean"), True),
        Column("95 %", "95 % confidence interval of the mean (bootstrap).", _spread("mean"), True),
        Column("X BOUND", "The mean divided by the lower bound of any policy.", _to_bound, True),
        Column(
            f"X {comparison.reference.upper()}",
            f"The mean divided by that of {comparison.reference}, on the same jobs.",
            lambda row: _decimal(row.against.value if row.against else None),
            True,
        ),
        Column("95 %", "95 % confidence interval of the ratio, job by job.", _against, True),
        Column("MEDIAN", "Median completion time, in s.", _figure("median"), True),
        Column("P95", "95th percentile of the completion time, in s.", _figure("p95"), True),
        Column("P99", "99th percentile of the completion time, in s.", _figure("p99"), True),
        Column(
            "MAKESPAN", "From the first submission to the last end, in s.", _plain("makespan"), True
        ),
        Column("WAIT", "Mean time from submission to the first start, in s.", _plain("wait"), True),
        Column("WAIT P95", "95th percentile of that time, in s.", _plain("wait_p95")),
        Column(
            "SLOWDOWN",
            "Mean of completion time / time alone on the requested devices (at least 10 s).",
            _ratio("slowdown"),
        ),
        Column(
            "WORST RHO",
            "Largest completion time / time with a fair share of the cluster: above 1 is unfair.",
            _ratio("rho_worst"),
        ),
        Column("UNFAIR", "Share of the jobs whose rho is above 1.05.", _share("rho_unfair"), True),
        Column("USED", "Share of the device-seconds that were held.", _share("utilisation"), True),
        Column("USEFUL", "The same without those lost in pauses and failures.", _share("useful")),
        Column(
            "FRAGMENTED",
            "Mean share of the free devices on partly used nodes.",
            _share("fragmentation"),
        ),
        Column("RESIZES", "Resizes of running jobs.", _plain("resizes"), True),
        Column("PREEMPTIONS", "Running jobs stopped for others.", _plain("preemptions")),
        Column("MIGRATIONS", "Running jobs moved to other devices.", _plain("migrations")),
        Column("FAILURES", "Runs ended by a lost node.", _plain("failures")),
        Column("LOST H", "Wasted device-hours.", _hours, True),
        Column("REFUSED", "Jobs that could never run on this cluster.", _plain("refused")),
        Column("UNFINISHED", "Jobs unfinished at the end.", _plain("unfinished")),
    )


def cells(comparison: Comparison, shown: Sequence[Column]) -> list[list[str]]:
    """Return the rows as text, the policy's name first."""
    return [[row.policy, *(column.cell(row) for column in shown)] for row in comparison.rows]


def text(comparison: Comparison, *, full: bool = False) -> str:
    """Return a table without borders and a footer; without `full` the brief columns only."""
    # Only the command line needs rich, and it is slow to import.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = [column for column in columns(comparison) if full or column.brief]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="", pad_edge=False)
    table.add_column("POLICY", no_wrap=True)
    for column in shown:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for line in cells(comparison, shown):
        table.add_row(*(Text(cell) for cell in line))
    # As wide as necessary: a terminal wraps what a pipe must not lose.
    console = Console(file=io.StringIO(), width=10_000, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    return "\n".join([*lines, "", *footer(comparison)])


def footer(comparison: Comparison) -> list[str]:
    """Return what the figures describe, one sentence a line."""
    seeds = "1 seed" if len(comparison.seeds) == 1 else f"{len(comparison.seeds)} seeds"
    lines = [
        f"Times in s, of {comparison.jobs:,} jobs, {seeds}; 95 % by bootstrap, policies job by job."
    ]
    if comparison.bounds is not None:
        b = comparison.bounds
        lines.append(
            f"Lower bound of the mean: {_time(b.best)} (jobs alone {_time(b.alone)}, "
            f"the cluster as one machine {_time(b.machine)}, both combined {_time(b.mixed)})."
        )
    return [*lines, *(f"Note: {note}." for note in comparison.notes)]


def as_json(comparison: Comparison) -> str:
    """Return everything, unrounded."""
    data = asdict(comparison)
    if comparison.bounds is not None:
        data["bounds"]["best"] = comparison.bounds.best
    return json.dumps(data, indent=2, allow_nan=False)


def _figure(name: str) -> Callable[[Row], str]:
    """Show a completion time of the common jobs."""
    return lambda row: _time(row.intervals[name].value) if name in row.intervals else NONE


def _spread(name: str) -> Callable[[Row], str]:
    return lambda row: _between(row.intervals.get(name), _time)


def _against(row: Row) -> str:
    it = row.against
    return NONE if it is None or it.low == it.high else _between(it, _decimal)


def _between(interval: Interval | None, shown: Callable[[float], str]) -> str:
    return NONE if interval is None else f"{shown(interval.low)}..{shown(interval.high)}"


def _to_bound(row: Row) -> str:
    return _decimal(row.to_bound)


def _plain(name: str) -> Callable[[Row], str]:
    return lambda row: _time(row.figures[name])


def _ratio(name: str) -> Callable[[Row], str]:
    return lambda row: _decimal(row.figures[name])


def _share(name: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        value = row.figures[name]
        return NONE if value is None else f"{value:.1%}"

    return cell


def _hours(row: Row) -> str:
    value = row.figures["lost"]
    return NONE if value is None else f"{value:,.1f}"


def _time(value: float | None) -> str:
    """Format whole seconds or counts, with one decimal below 100."""
    if value is None:
        return NONE
    return f"{value:,.1f}" if abs(value) < 100 and not float(value).is_integer() else f"{value:,.0f}"


def _decimal(value: float | None) -> str:
    return NONE if value is None else f"{value:,.2f}"
