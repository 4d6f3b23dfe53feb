"""`muster curves` and `muster timeline`: the past. Imports stay inside so that help is quick."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from muster.cli.connect import daemon
from muster.cli.group import Commands
from muster.cli.options import FORMATS, JOBS, Which, option

if TYPE_CHECKING:
    from muster.wire.api.history_records import CurveRecord, JobCurves, SpanRecord

history = Commands()

Format = Literal["table", "json", "csv"]
Form = Annotated[Format, option(None, FORMATS, "--output", "-o")]


@history.command("curves", rich_help_panel=JOBS)
def show_curves(which: Which, output: Form = "table") -> None:
    """Show how a training went: loss, metrics, rate and workers, and the devices it held.

    Kept when the job is over. csv has a line for each point: what, step, at, value, workers, samples.

    Examples:
      muster curves 12
      muster curves resnet50 -o csv > resnet50.csv
    """
    from muster.cli.render.answers import as_json

    with daemon() as client:
        found = client.curves(which)
    if output == "json":
        typer.echo(as_json(found))
    elif output == "csv":
        typer.echo(
            _csv(("what", "step", "at", "value", "workers", "samples"), _points(found)), nl=False
        )
    else:
        typer.echo(_page(found))


@history.command("timeline", rich_help_panel=JOBS)
def show_timeline(
    since: Annotated[
        str, option(None, "From so long ago, or from a date.", metavar="TIME|DATE")
    ] = "1d",
    until: Annotated[
        str | None, option(None, "Until so long ago, or until a date.", metavar="TIME|DATE")
    ] = None,
    output: Form = "table",
) -> None:
    """Show who held which devices when, and why: what was decided, or what happened.

    Of jobs that you may not see, only that their devices were in use.

    Examples:
      muster timeline --since 2h
      muster timeline --since 2026-11-16 --until 2026-11-17 -o csv
    """
    import time

    from muster.cli.parse import moment_of
    from muster.cli.render.answers import as_json

    now = time.time()
    begin = max(0.0, moment_of("--since", since, now))
    end = None if until is None else max(0.0, moment_of("--until", until, now))
    with daemon() as client:
        spans = list(client.timeline(since=begin, until=end))
    if output == "json":
        typer.echo(as_json(spans))
    elif output == "csv":
        heading = ("began", "ended", "number", "job", "user", "status", "devices", "code", "reason")
        typer.echo(_csv(heading, (_row(span) for span in spans)), nl=False)
    else:
        typer.echo(_spans(spans) if spans else "no job held a device; longer ago: --since 30d")


def _page(found: "JobCurves") -> str:
    parts = [_drawn(curve) for curve in found.curves]
    if found.curves and any(found.curves[0].rates):
        parts.append(_line("samples/s", found.curves[0].rates[1:]))
    if found.spans:
        parts.append(_spans(found.spans))
    return "\n\n".join(parts) or f"job {found.number} has neither reported a step nor held a device"


def _drawn(curve: "CurveRecord") -> str:
    return f"{_line(curve.what, curve.values)}\n{'':12}steps {curve.steps[0]} to {curve.steps[-1]}"


def _line(what: str, values: tuple[float, ...]) -> str:
    from muster.cli.render.sparkline import sparkline

    return f"{what:12}{sparkline(values)}  {values[0]:.4g} -> {values[-1]:.4g}" if values else what


def _spans(spans: "Iterable[SpanRecord]") -> str:
    from muster.cli.render.table import table
    from muster.cli.render.words import clock, moment

    rows = [
        (
            moment(span.began),
            "-" if span.ended is None else clock(span.ended - span.began),
            _named(span),
            span.status,
            _devices(span),
            span.reason or "-",
        )
        for span in spans
    ]
    return table(("BEGAN", "FOR", "JOB", "STATUS", "DEVICES", "WHY"), rows, left=(0, 2, 3, 4, 5))


def _named(span: "SpanRecord") -> str:
    return "-" if span.number is None else f"{span.number} ({span.job})"


def _devices(span: "SpanRecord") -> str:
    """`n0[0,1] n1[3]`."""
    return " ".join(f"{node}[{','.join(map(str, held))}]" for node, held in span.devices.items())


def _row(span: "SpanRecord") -> tuple[object, ...]:
    about = (span.number, span.job, span.user, span.status, _devices(span), span.code, span.reason)
    return (span.began, span.ended, *about)


def _points(found: "JobCurves") -> "Iterable[tuple[object, ...]]":
    for curve in found.curves:
        columns = (curve.steps, curve.at, curve.values, curve.workers, curve.samples)
        for values in zip(*columns, strict=True):
            yield (curve.what, *values)


def _csv(heading: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return text.getvalue()
