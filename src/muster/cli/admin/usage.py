"""`muster usage`. Imports stay inside the command so that help is quick."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from muster.cli.connect import daemon
from muster.cli.group import Commands
from muster.cli.options import FORMATS, JOBS, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.wire.api.use_records import UsageRecord, UsageReport

usage = Commands()

_TITLES = {"type": "DEVICE TYPE"}
_FIGURES = ("DEVICE-HOURS", "IDLE", "LOST", "BUSY", "JOBS")
Format = Literal["table", "json", "csv"]


@usage.command("usage", rich_help_panel=JOBS)
def show(
    since: Annotated[
        str, option(None, "From so long ago, or from a date (2026-11-01).", metavar="TIME|DATE")
    ] = "7d",
    until: Annotated[
        str | None, option(None, "Until so long ago, or until a date.", metavar="TIME|DATE")
    ] = None,
    by: Annotated[
        list[str] | None,
        option(
            None,
            "user, pool, application, type, job or label:KEY; repeatable, or with commas.",
            metavar="GROUP",
        ),
    ] = None,
    output: Annotated[Format, option(None, FORMATS, "--output", "-o")] = "table",
) -> None:
    """Show what jobs have held, in device-hours, and how much of it was wasted.

    Idle: held without running, while they start, stop or wait to restart. Lost: done again or in vain,
    after the last checkpoint before a stop, a loss or a failure. Busy: how much of the time the devices
    computed, where they tell (NVML). Whole hours, in UTC; everybody's for an administrator, otherwise
    your own and that of shared pools.

    Examples:
      muster usage                                  the last seven days, by user
      muster usage --since 30d --by pool,type
      muster usage --since 2026-11-01 --until 2026-12-01 --by label:project -o csv
    """
    from muster.cli.render.answers import as_json

    groups = tuple(name for text in by or ("user",) for name in text.split(","))
    with daemon() as client:
        report = client.usage(
            since=_moment("--since", since),
            until=None if until is None else _moment("--until", until),
            by=groups,
        )
    if output == "json":
        typer.echo(as_json(report))
    else:
        typer.echo(_table(report) if output == "table" else _csv(report), nl=output == "table")


def _moment(name: str, text: str) -> float:
    """A date of UTC, or so long ago, in s since 1970."""
    import time
    from datetime import UTC

    from muster.cli.parse import moment_of

    return max(0.0, moment_of(name, text, time.time(), UTC))


def _table(report: "UsageReport") -> str:
    from muster.cli.render.table import table

    if not report.groups:
        return "nothing was held in this time; longer ago: muster usage --since 30d"
    heading = [_TITLES.get(name, name.upper()) for name in report.by]
    rows = [[*each.group.values(), *_figures(each)] for each in report.groups]
    if len(rows) > 1:
        rows.append(["total", *("" for _ in report.by[1:]), *_figures(report.total)])
    return table([*heading, *_FIGURES], rows, left=range(len(report.by)))


def _figures(record: "UsageRecord") -> "Sequence[str]":
    from muster.model.duration import in_hours

    held = record.device_hours

    def part(hours: float) -> str:
        return f"{hours / held:.0%}" if held else "-"

    busy = "-" if record.utilisation is None else f"{record.utilisation:.0%}"
    return (in_hours(held), part(record.idle), part(record.lost), busy, f"{record.jobs:,}")


def _csv(report: "UsageReport") -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*report.by, "device_hours", "idle", "lost", "utilisation", "jobs"])
    for each in report.groups:
        busy = "" if each.utilisation is None else each.utilisation
        figures = (each.device_hours, each.idle, each.lost, busy, each.jobs)
        writer.writerow([*each.group.values(), *figures])
    return text.getvalue()
