"""`muster run`: forecast, confirmation, submission, and what follows."""

import os
import shlex
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from muster.cli.connect import daemon
from muster.cli.exits import NO_FORECAST, OTHER_FAILURE, WOULD_START, WOULD_WAIT
from muster.cli.jobs.reading.follow import follow_to_end, wait_for
from muster.cli.jobs.select import PAGE
from muster.cli.jobs.submitting.field_options import FieldOptions
from muster.cli.jobs.submitting.file_lines import faults_by_line
from muster.cli.jobs.submitting.options import RunRequest, Submission
from muster.cli.jobs.submitting.pipeline import is_pipeline, run_pipeline
from muster.cli.jobs.submitting.request import free_name, job_record
from muster.cli.render.answers import as_json
from muster.cli.render.terminal import agreed, bold, complain, hint
from muster.cli.render.words import clock, moment
from muster.files.errors import InputError
from muster.files.source.faults import FaultsError
from muster.wire.api.records import LIVE, Forecast

if TYPE_CHECKING:
    from muster.client import Client, Handle


LATE = "not played yet; see muster ps"
"""In place of a time that the daemon had no time to forecast."""


def run_request(request: RunRequest, how: Submission, more: FieldOptions | None = None) -> int:
    """Submit the job or jobs, or print every fault of the request; return the exit code."""
    file = request.job_file
    try:
        if file is not None and is_pipeline(file):
            return run_pipeline(file, request, how, more)
        record = job_record(request, os.environ, more)
    except InputError as error:
        for line in error.lines if isinstance(error, FaultsError) else (str(error),):
            complain(line)
        return how.failure
    return submit_record(record, how, file=file, renames=request.names_itself)


def submit_record(
    record: dict[str, Any], how: Submission, *, file: Path | None = None, renames: bool = False
) -> int:
    """Print the forecast, ask, submit; return the exit code. `renames`: if its name is in use, by
    another."""
    about = str(file or "")
    with (
        daemon(about=about, failure=NO_FORECAST if how.dry_run else None) as client,
        faults_by_line(file, how.failure),
    ):
        if "sweep" in record:
            from muster.cli.sweeps.submit import run_sweep

            return run_sweep(client, record, how, own_name=renames)
        if renames:
            live = {job.name for job in client.jobs(statuses=LIVE, page=PAGE)}
            record["name"] = free_name(record["name"], live)
        return _run(client, record, how, about or record["name"])


def _run(client: "Client", record: Mapping[str, Any], how: Submission, about: str) -> int:
    """Print the forecast, ask, submit; return the exit code."""
    # Standard output is for the answer or the job's output: everything else goes to standard error.
    talk = partial(typer.echo, err=how.follow or how.as_json)
    forecast = client.forecast(record)
    if how.dry_run and how.as_json:
        typer.echo(as_json(forecast))
    elif not forecast.problem:
        talk(plan_text(record, forecast, time.time()))
    if forecast.problem:
        complain(f"{about}: {forecast.problem}")
        return how.failure
    if how.dry_run:
        return WOULD_START if forecast.starts_now else WOULD_WAIT
    if not agreed("Submit it?", yes=how.yes):
        complain("nothing was submitted")
        return OTHER_FAILURE
    handle = client.submit(record)
    talk(f"job {handle.number} ({handle.name}) submitted")
    for caveat in forecast.caveats:
        typer.echo(f"note: {caveat}", err=True)
    return _stay(client, handle, how)


def _stay(client: "Client", handle: "Handle", how: Submission) -> int:
    """Follow the job or wait for it, if asked to."""
    number = str(handle.number)
    if how.follow:
        return follow_to_end(client, number)
    if how.wait:
        return wait_for(client, [number], None, as_json=how.as_json)
    if how.as_json:
        typer.echo(as_json(handle.record()))
    else:
        hint(f"logs: muster logs -f {number} · details: muster show {number} · all jobs: muster ps")
    return 0


def plan_text(record: Mapping[str, Any], forecast: Forecast, now: float) -> str:
    """The forecast: plan and placement, expected start and finish."""
    command = record.get("command", "")
    line = command if isinstance(command, str) else shlex.join(map(str, command))
    program = str(record.get("origin", {}).get("executable", ""))
    facts = {
        "command": line,
        "program": "" if line.startswith(program) else program,
        "folder": str(record.get("folder", "")),
        "ship": str(record.get("ship", "")),
        "pool": str(record.get("pool", "default")),
        "plan": forecast.plan,
        "where": forecast.placement,
        "start": _start(forecast, now),
        "finish": _finish(forecast, now),
        "risk": _risk(forecast),
    }
    lines = [f"  {name:<9}{text}" for name, text in facts.items() if text]
    return "\n".join([bold(str(record["name"])), *lines])


def _start(forecast: Forecast, now: float) -> str:
    if forecast.starts_now:
        return "now"
    why = f": {forecast.reason}" if forecast.reason else ""
    span = _span(forecast.start_low, forecast.start_high, forecast.start, now)
    return f"{_expected(forecast.start, forecast, now)}{span}{why}"


def _finish(forecast: Forecast, now: float) -> str:
    basis = f" (by {forecast.basis})" if forecast.basis else ""
    span = _span(forecast.finish_low, forecast.finish_high, forecast.finish, now)
    return f"{_expected(forecast.finish, forecast, now)}{span}{basis}"


def _risk(forecast: Forecast) -> str:
    """Return how probable it is that others stop it meanwhile; empty: it is not."""
    odds = forecast.preemption
    return f"preempted in {odds:.0%} of the futures played" if odds else ""


def _span(low: float | None, high: float | None, middle: float | None, now: float) -> str:
    """Return the 80 % interval; of a time that is unknown, what it is at least."""
    if low is None or (low <= now and middle is None):
        return ""
    if middle is None or high is None:
        return f", {clock(max(0.0, low - now))} or more"
    ends = (clock(max(0.0, each - now)) for each in (low, high))
    return f", {' to '.join(ends)} (80% interval)"


def _expected(at: float | None, forecast: Forecast, now: float) -> str:
    if at is None:
        return LATE if forecast.late else "unknown"
    return f"in {clock(max(0.0, at - now))}, at {moment(at)}"
