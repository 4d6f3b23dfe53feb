"""`muster stop` and `muster resize`."""

import time
from collections.abc import Sequence

import typer

from muster.cli.connect import daemon, exit_code, report
from muster.cli.exits import OTHER_FAILURE
from muster.cli.jobs.filters import JobFilters
from muster.cli.jobs.named import handle_named
from muster.cli.jobs.select import matching
from muster.cli.parse import parsed
from muster.cli.render.terminal import agreed, complain, painted
from muster.cli.render.words import clock, counted
from muster.client import ClientError, JobSelection
from muster.files.errors import InputError
from muster.files.source.quantity import parse_counts
from muster.wire.api.records import JobRecord, workers_asked
from muster.wire.api.sweep_records import SweepRecord


def stop_jobs(which: Sequence[str], *, yes: bool, force: bool = False) -> int:
    """Stop the jobs; return the exit code of the first that cannot be stopped."""
    code = 0
    with daemon() as client:
        named = [] if yes else [handle_named(client, each).record() for each in which]
        if not yes and not agreed(_question(named), yes=False):
            complain("nothing was stopped")
            return OTHER_FAILURE
        for each in which:
            try:
                found = handle_named(client, each)
                now = found.stop(force=force)
            except ClientError as error:
                report(error)
                code = code or exit_code(error)
            else:
                typer.echo(f"{found.kind} {now.number} ({now.name}): {painted(now.status)}")
    return code


def stop_matching(filters: JobFilters, *, every: bool, yes: bool, force: bool) -> int:
    """Stop the caller's live jobs that match, or all of them; return the exit code."""
    with daemon() as client:
        found = matching(client, filters, every=every)
        if not found:
            complain("no live job matches; nothing was stopped")
            return 0
        if not yes and not agreed(_question(found), yes=False):
            complain("nothing was stopped")
            return OTHER_FAILURE
        wanted = filters.own().selection(time.time())
        for job in client.stop_all(wanted if wanted != JobSelection() else None, force=force):
            typer.echo(f"job {job.number} ({job.name}): {painted(job.status)}")
    return 0


NAMED = 10
"""Jobs that a question names."""


def _question(jobs: Sequence[JobRecord | SweepRecord]) -> str:
    now = time.time()
    named = [_described(job, now) for job in jobs[:NAMED]]
    named += [f"and {len(jobs) - NAMED} more"] if len(jobs) > NAMED else []
    return f"Stop {counted(len(jobs), 'job')}: {', '.join(named)}?"


def _described(job: JobRecord | SweepRecord, now: float) -> str:
    if isinstance(job, SweepRecord):
        return f"sweep {job.number} ({job.name}, {counted(job.members, 'member')})"
    return f"{job.number} ({job.name}, {job.status} for {clock(now - (job.started or job.submitted))})"


def resize_job(which: str, workers: str, servers: int | None) -> None:
    """Change how many workers a job asks for, and print the answer."""
    counts = parsed("workers", workers, parse_counts)
    if counts.least == 0:
        raise InputError.at("workers", f"must be at least 1; to end the job: muster stop {which}")
    with daemon() as client:
        job = client.resize(which, counts.least, counts.most, servers)
        typer.echo(
            f"job {job.number} ({job.name}) now asks for {workers_asked(job.asked)}; "
            f"it has {job.workers}"
        )
