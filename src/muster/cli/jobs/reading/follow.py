"""Following jobs: their output, and how they end."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from muster.cli.exits import NOT_FINISHED, code_of
from muster.cli.jobs.named import handle_named
from muster.cli.render.answers import as_json as json_text
from muster.cli.render.terminal import complain, painted
from muster.cli.render.words import clock
from muster.cli.sweeps.show import sweep_words
from muster.wire.api.job_relations import was_spared
from muster.wire.api.records import OVER, JobRecord
from muster.wire.api.sweep_records import SweepRecord

if TYPE_CHECKING:
    from muster.client import Client, Handle
    from muster.client.handles.sweep_handle import SweepHandle


def show_logs(
    client: "Client", which: str, task: str | None, *, follow: bool, lines: int | None
) -> int:
    """Print the output of a job's tasks; return the exit code. Ctrl-C does not stop the job."""
    try:
        for line in last_lines(client, which, task, follow, lines):
            typer.echo(line)
    except KeyboardInterrupt:
        _detached(which)
    return 0


def last_lines(
    client: "Client", which: str, task: str | None, follow: bool, last: int | None
) -> Iterator[str]:
    """The lines; with `last`, only that many of each task."""
    if last is None:
        yield from client.logs(which, task, follow)
        return
    # Read twice: how many lines to skip is known only at the end.
    total = Counter(_log_of(line, task) for line in client.logs(which, task))
    passed: Counter[str] = Counter()
    for line in client.logs(which, task, follow):
        log = _log_of(line, task)
        passed[log] += 1
        if passed[log] > total[log] - last:
            yield line


def _log_of(line: str, task: str | None) -> str:
    """The log a line belongs to; the lines of several tasks begin with it."""
    return line.partition(" | ")[0] if task is None else task


def follow_to_end(client: "Client", which: str) -> int:
    """Print a job's output until it has finished; return the exit code for its outcome."""
    try:
        for line in client.logs(which, follow=True):
            typer.echo(line)
        job = client.handle(which).wait()
    except KeyboardInterrupt:
        _detached(which)
        return NOT_FINISHED
    print_end(job, logged=True)
    return code_of(job.status)


def wait_for(
    client: "Client", which: Sequence[str], timeout: float | None, *, as_json: bool = False
) -> int:
    """Wait for every job or sweep; return the exit code of the first that did not succeed."""
    deadline = None if timeout is None else time.monotonic() + timeout
    ended: list[JobRecord | SweepRecord] = []
    try:
        for each in which:
            found = _end_of(handle_named(client, each), deadline)
            ended.append(found)
            if as_json:
                continue
            print_end(found) if isinstance(found, JobRecord) else print_sweep_end(found)
    except KeyboardInterrupt:
        complain("no longer waiting; the jobs keep running")
        return NOT_FINISHED
    if as_json:
        typer.echo(json_text(ended))
    return next(filter(None, map(_code, ended)), 0)


def _code(found: JobRecord | SweepRecord) -> int:
    if isinstance(found, SweepRecord):
        return code_of(found.outcome)
    return 0 if was_spared(found.status, found.after) else code_of(found.status)


def _end_of(handle: "Handle | SweepHandle", deadline: float | None) -> JobRecord | SweepRecord:
    """The job or sweep once it has finished, or as it is at the deadline."""
    try:
        return handle.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        return handle.record()


def print_sweep_end(sweep: SweepRecord) -> None:
    """Print how far a sweep is."""
    typer.echo(f"sweep {sweep.number} ({sweep.name}): {sweep_words(sweep)}", err=True)


def print_end(job: JobRecord, *, logged: bool = False) -> None:
    """Print how a job ended; for a failure also why, with its last output unless already `logged`."""
    named = f"job {job.number} ({job.name})"
    if job.status not in OVER:
        typer.echo(f"{named} is still {painted(job.status)}", err=True)
        return
    took = "" if job.ended is None else f" after {clock(job.ended - job.submitted)}"
    why = f": {job.reason}" if job.status in ("skipped", "pruned") else ""
    typer.echo(f"{named} {painted(job.status)}{took}{why}", err=True)
    if job.error:
        typer.echo(job.error.splitlines()[0] if logged else job.error, err=True)


def _detached(which: str) -> None:
    complain(f"detached; the job keeps running: `muster logs -f {which}`, `muster stop {which}`")
