"""`muster stop` and `muster resize`."""

import time
from collections.abc import Sequence

import typer

from muster.cli.connect import daemon, exit_code, report
from muster.cli.exits import OTHER_FAILURE
from muster.cli.parse import parsed
from muster.cli.render.terminal import agreed, complain, painted
from muster.cli.render.words import clock, counted
from muster.client import ClientError
from muster.files.errors import InputError
from muster.files.source.quantity import parse_counts
from muster.wire.records import JobRecord, workers_asked


def stop_jobs(which: Sequence[str], *, yes: bool, force: bool = False) -> int:
    """Stop the jobs; return the exit code of the first that cannot be stopped."""
    code = 0
    with daemon() as client:
        if not yes and not agreed(_question([client.job(each).job for each in which]), yes=False):
            complain("nothing was stopped")
            return OTHER_FAILURE
        for each in which:
            try:
                job = client.stop(each, force=force)
            except ClientError as error:
                report(error)
                code = code or exit_code(error)
            else:
                typer.echo(f"job {job.number} ({job.name}): {painted(job.status)}")
    return code


def _question(jobs: Sequence[JobRecord]) -> str:
    now = time.time()
    named = [
        f"{job.number} ({job.name}, {job.status} for {clock(now - (job.started or job.submitted))})"
        for job in jobs
    ]
    return f"Stop {counted(len(jobs), 'job')}: {', '.join(named)}?"


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
