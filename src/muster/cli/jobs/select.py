"""The jobs that a filter matches, and the logs of several jobs."""

import queue
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from threading import Thread
from typing import TYPE_CHECKING

import typer

from muster.cli.jobs.filters import JobFilters
from muster.cli.jobs.reading.follow import last_lines
from muster.cli.render.terminal import complain
from muster.client import ClientError
from muster.files.errors import InputError, did_you_mean
from muster.wire.api.records import LIVE, JobRecord

if TYPE_CHECKING:
    from muster.client import Client

PAGE = 1000
"""Jobs per request: the API's maximum."""
FOLLOWED = 16
"""Jobs whose logs are followed at once: each takes a stream of the daemon, which allows 32 a user."""


def matching(
    client: "Client", filters: JobFilters, *, every: bool = False, ended: bool = False
) -> list[JobRecord]:
    """Return the caller's jobs that match, newest first: live ones, or with `ended` all.

    InputError without a filter, unless `every` job is meant.
    """
    if not filters.given and not every:
        problem = "name jobs, or filter them, for example with --label run=a; see --help"
        raise InputError.at("JOB", problem)
    wanted = filters.own().selection(time.time())
    if not ended:
        live = tuple(status for status in LIVE if not wanted.statuses or status in wanted.statuses)
        if not live:
            raise InputError.at("--status", f"{wanted.statuses[0]} jobs have ended already")
        wanted = replace(wanted, statuses=live)
    found = list(client.jobs(**asdict(wanted), page=PAGE))
    if not found:
        note_unknown_pool(client, filters.pool)
    return found


def note_unknown_pool(client: "Client", name: str | None) -> bool:
    """Say if a pool that nothing was found of does not exist, most likely misspelt; whether so."""
    names = [pool.name for pool in client.pools()] if name is not None else []
    if name is None or name in names:
        return False
    near = did_you_mean(name, names) or f"; pools: {', '.join(names)}"
    complain(f"there is no pool {name!r}{near}")
    return True


def logs_of(client: "Client", jobs: Sequence[JobRecord], *, follow: bool, lines: int | None) -> int:
    """Print the output of several jobs, oldest first or as it comes; return the exit code."""
    if not jobs:
        complain("no job matches; of those that have ended: --status succeeded,failed")
        return 0
    oldest = sorted(jobs, key=lambda job: job.number)
    if follow and len(oldest) > FOLLOWED:
        complain(f"{len(oldest)} jobs match, of which at most {FOLLOWED} can be followed; narrow it")
        return 2
    try:
        for line in _together(client, oldest, lines) if follow else _in_turn(client, oldest, lines):
            typer.echo(line)
    except KeyboardInterrupt:
        complain("detached; the jobs keep running")
    return 0


def _in_turn(client: "Client", jobs: Sequence[JobRecord], lines: int | None) -> Iterator[str]:
    for job in jobs:
        for line in last_lines(client, str(job.number), None, False, lines):
            yield f"{job.name} {line}"


def _together(client: "Client", jobs: Sequence[JobRecord], lines: int | None) -> Iterator[str]:
    """Yield lines of all jobs as they come, until all have ended."""
    said: queue.SimpleQueue[str | ClientError | None] = queue.SimpleQueue()

    def follow(job: JobRecord) -> None:
        try:
            for line in last_lines(client, str(job.number), None, True, lines):
                said.put(f"{job.name} {line}")
        except ClientError as error:
            said.put(error)
        finally:
            said.put(None)

    # Daemon threads: Ctrl-C must not wait for jobs that run on.
    for job in jobs:
        Thread(target=follow, args=(job,), daemon=True).start()
    left = len(jobs)
    while left:
        line = said.get()
        if line is None:
            left -= 1
        elif isinstance(line, ClientError):
            raise line
        else:
            yield line
