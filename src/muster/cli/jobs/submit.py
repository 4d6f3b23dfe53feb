"""`muster run`: what would become of a job, the question, the submission, and what follows."""

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from muster.cli.connect import daemon
from muster.cli.exits import BAD_INPUT, NO_FORECAST, OTHER_FAILURE, WOULD_START, WOULD_WAIT
from muster.cli.jobs.follow import follow_to_end, wait_for
from muster.cli.jobs.request import RunRequest, free_name, job_record
from muster.cli.render.answers import as_json
from muster.cli.render.terminal import agreed, bold, complain, hint
from muster.cli.render.words import clock, moment
from muster.files.errors import InputError
from muster.files.source.faults import FaultsError
from muster.wire.records import LIVE, Forecast

if TYPE_CHECKING:
    from muster.client import Client, Handle

_PAGE = 1000
"""Jobs that are asked for at once: as many as the API gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a job is submitted, and how long it is stayed with."""

    dry_run: bool = False
    yes: bool = False
    follow: bool = False
    wait: bool = False
    as_json: bool = False


def run_request(request: RunRequest, manner: Manner) -> int:
    """Submit what was asked for; a line for each thing that is wrong with it. The exit code."""
    try:
        record = job_record(request, os.environ)
    except InputError as error:
        for line in error.lines if isinstance(error, FaultsError) else (str(error),):
            complain(line)
        return NO_FORECAST if manner.dry_run else BAD_INPUT
    about = str(request.job_file or "")
    with daemon(about=about, failure=NO_FORECAST if manner.dry_run else None) as client:
        if request.names_itself:
            live = {job.name for job in client.jobs(statuses=LIVE, page=_PAGE)}
            record["name"] = free_name(record["name"], live)
        return _run(client, record, manner, about or record["name"])


def _run(client: "Client", record: Mapping[str, Any], manner: Manner, about: str) -> int:
    """Show what is expected, ask, submit; the exit code."""
    # What a script reads is the answer, or what the job prints: the talk goes beside it.
    talk = partial(typer.echo, err=manner.follow or manner.as_json)
    forecast = client.forecast(record)
    if manner.dry_run and manner.as_json:
        typer.echo(as_json(forecast))
    elif not forecast.problem:
        talk(plan_text(record, forecast, time.time()))
    if forecast.problem:
        complain(f"{about}: {forecast.problem}")
        return NO_FORECAST if manner.dry_run else BAD_INPUT
    if manner.dry_run:
        return WOULD_START if forecast.starts_now else WOULD_WAIT
    if not agreed("Submit it?", yes=manner.yes):
        complain("nothing was submitted")
        return OTHER_FAILURE
    handle = client.submit(record)
    talk(f"job {handle.number} ({handle.name}) is submitted")
    return _stay(client, handle, manner)


def _stay(client: "Client", handle: "Handle", manner: Manner) -> int:
    """See the job to its end where that was asked; else it goes on by itself."""
    number = str(handle.number)
    if manner.follow:
        return follow_to_end(client, number)
    if manner.wait:
        return wait_for(client, [number], None, as_json=manner.as_json)
    if manner.as_json:
        typer.echo(as_json(handle.record()))
    else:
        hint(f"logs: muster logs -f {number} · all about it: muster show {number} · all: muster ps")
    return 0


def plan_text(record: Mapping[str, Any], forecast: Forecast, now: float) -> str:
    """What would become of the job: its plan and placement, and when it would start and finish."""
    command = record.get("command", "")
    line = command if isinstance(command, str) else shlex.join(map(str, command))
    facts = {
        "command": line,
        "pool": str(record.get("pool", "default")),
        "plan": forecast.plan,
        "where": forecast.placement,
        "start": _start(forecast, now),
        "finish": _expected(forecast.finish, now),
    }
    lines = [f"  {name:<9}{text}" for name, text in facts.items() if text]
    return "\n".join([bold(str(record["name"])), *lines])


def _start(forecast: Forecast, now: float) -> str:
    if forecast.starts_now:
        return "now"
    why = f": {forecast.reason}" if forecast.reason else ""
    return f"{_expected(forecast.start, now)}{why}"


def _expected(at: float | None, now: float) -> str:
    return "not known" if at is None else f"in {clock(max(0.0, at - now))}, at {moment(at)}"
