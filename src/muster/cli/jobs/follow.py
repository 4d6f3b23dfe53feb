"""Staying with jobs: what they print, and how they end."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from muster.cli.exits import NOT_FINISHED, code_of
from muster.cli.render.answers import as_json as json_text
from muster.cli.render.terminal import complain, painted
from muster.cli.render.words import clock
from muster.wire.records import OVER, JobRecord

if TYPE_CHECKING:
    from muster.client import Client, Handle


def show_logs(
    client: "Client", which: str, task: str | None, *, follow: bool, lines: int | None
) -> int:
    """Print what a job's tasks print; the exit code. Ctrl-C ends the printing, not the job."""
    try:
        for line in _lines(client, which, task, follow, lines):
            typer.echo(line)
    except KeyboardInterrupt:
        _detached(which)
    return 0


def _lines(
    client: "Client", which: str, task: str | None, follow: bool, last: int | None
) -> Iterator[str]:
    """The lines, of each task only the last ones where so many are asked for."""
    if last is None:
        yield from client.logs(which, task, follow)
        return
    # Read twice: how much there is to leave out is known at the end only.
    there = Counter(_log_of(line, task) for line in client.logs(which, task))
    passed: Counter[str] = Counter()
    for line in client.logs(which, task, follow):
        log = _log_of(line, task)
        passed[log] += 1
        if passed[log] > there[log] - last:
            yield line


def _log_of(line: str, task: str | None) -> str:
    """Whose line it is: where all are asked for, each begins with that."""
    return line.partition(" | ")[0] if task is None else task


def follow_to_end(client: "Client", which: str) -> int:
    """Print what a job prints until it is over; the exit code tells how it went."""
    try:
        for line in client.logs(which, follow=True):
            typer.echo(line)
        job = client.handle(which).wait()
    except KeyboardInterrupt:
        _detached(which)
        return NOT_FINISHED
    tell_end(job, logged=True)
    return code_of(job.status)


def wait_for(
    client: "Client", which: Sequence[str], timeout: float | None, *, as_json: bool = False
) -> int:
    """Wait for every job; the exit code is that of the first, as given, that did not succeed."""
    deadline = None if timeout is None else time.monotonic() + timeout
    ended = []
    try:
        for each in which:
            job = _end_of(client.handle(each), deadline)
            ended.append(job)
            if not as_json:
                tell_end(job)
    except KeyboardInterrupt:
        complain("not waiting any more; the jobs go on")
        return NOT_FINISHED
    if as_json:
        typer.echo(json_text(ended))
    return next(filter(None, (code_of(job.status) for job in ended)), 0)


def _end_of(handle: "Handle", deadline: float | None) -> JobRecord:
    """The job as it ended, or as it stands when the time is up."""
    try:
        return handle.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        return handle.record()


def tell_end(job: JobRecord, *, logged: bool = False) -> None:
    """One line on how a job ended; where it failed also why, with the last of what it printed unless
    that was seen already."""
    named = f"job {job.number} ({job.name})"
    if job.status not in OVER:
        typer.echo(f"{named} is still {painted(job.status)}", err=True)
        return
    took = "" if job.ended is None else f" after {clock(job.ended - job.submitted)}"
    typer.echo(f"{named} {painted(job.status)}{took}", err=True)
    if job.error:
        typer.echo(job.error.splitlines()[0] if logged else job.error, err=True)


def _detached(which: str) -> None:
    complain(f"detached; the job goes on: `muster logs -f {which}`, `muster stop {which}`")
