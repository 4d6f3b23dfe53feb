"""`scancel`: stops jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from muster.cli.compat.job_ids import array_of, named_jobs, split_ids
from muster.cli.compat.words import statuses, words_of
from muster.cli.connect import daemon
from muster.client.errors import ClientError
from muster.executors.accounts import own_user
from muster.wire.api.records import LIVE, JobRecord

if TYPE_CHECKING:
    from muster.client import Client

PAGE = 1000
_KILLS = ("KILL", "SIGKILL", "9")
_STOPS = ("TERM", "SIGTERM", "15")


def run_scancel(words: Sequence[str]) -> None:
    """Stop jobs as `scancel` does."""
    parser = words_of("scancel")
    parser.add_argument("-u", "--user")
    parser.add_argument("--me", action="store_true")
    parser.add_argument("-n", "--name", "--jobname")
    parser.add_argument("-p", "--partition")
    parser.add_argument("-t", "--state")
    parser.add_argument("-s", "--signal")
    parser.add_argument("-b", "--batch", action="store_true")
    parser.add_argument("-f", "--full", action="store_true")
    parser.add_argument("-Q", "--quiet", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("jobs", nargs="*")
    given = parser.parse_args(words)
    signal = (given.signal or "").upper()
    if signal and signal not in (*_KILLS, *_STOPS):
        parser.error(f"--signal={given.signal}: only TERM and KILL; use muster exec to send another")
    chosen = (given.user, given.me, given.name, given.partition, given.state)
    if not given.jobs and not any(chosen):
        parser.error("No job identification provided")
    try:
        wanted = statuses(given.state.split(",")) if given.state else LIVE
    except ValueError as error:
        parser.error(str(error))
    failed = False
    with daemon() as client:
        if given.jobs:
            found = [job for each in split_ids(given.jobs) for job in _named(client, each)]
        else:
            user = own_user() if given.me else given.user
            found = list(client.jobs(statuses=wanted, user=user, pool=given.partition, page=PAGE))
        names = given.name.split(",") if given.name else None
        for job in found:
            if job.status not in wanted or (names is not None and job.name not in names):
                continue
            try:
                client.stop(job.number, force=signal in _KILLS)
            except ClientError as error:
                typer.echo(f"scancel: error: Kill job error on job id {job.number}: {error}", err=True)
                failed = True
    raise typer.Exit(int(failed))


def _named(client: "Client", number: str) -> list[JobRecord]:
    """Return the jobs of a number; of a whole array none, since it is stopped as such."""
    try:
        return list(named_jobs(client, [number])) if "_" in number else [client.record(number)]
    except ClientError as error:
        if error.status != 404 or array_of(client, number) is None:
            raise
    client.stop_sweep(number)
    return []
