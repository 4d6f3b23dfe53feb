"""`squeue`: jobs that wait or run."""

from collections.abc import Mapping, Sequence
from math import inf

import typer

from muster.cli.compat.job_ids import job_id, named_jobs, split_ids
from muster.cli.compat.words import (
    elapsed,
    formatted,
    place,
    reason,
    short_clock,
    short_state,
    stamp,
    state,
    statuses,
    time_left,
    time_limit,
    words_of,
)
from muster.cli.connect import daemon
from muster.executors.accounts import own_user
from muster.wire.api.records import LIVE, JobRecord

USUAL = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
STARTS = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
PENDING = "waiting"
PAGE = 1000
HEADERS = {
    "i": "JOBID",
    "A": "JOBID",
    "P": "PARTITION",
    "j": "NAME",
    "u": "USER",
    "t": "ST",
    "T": "STATE",
    "M": "TIME",
    "l": "TIME_LIMIT",
    "L": "TIME_LEFT",
    "D": "NODES",
    "R": "NODELIST(REASON)",
    "N": "NODELIST",
    "r": "REASON",
    "C": "CPUS",
    "b": "TRES_PER_NODE",
    "p": "PRIORITY",
    "Q": "PRIORITY",
    "V": "SUBMIT_TIME",
    "S": "START_TIME",
    "e": "END_TIME",
    "Y": "SCHEDNODES",
    "o": "COMMAND",
    "a": "ACCOUNT",
}


def run_squeue(words: Sequence[str]) -> None:
    """Print live jobs as `squeue` does."""
    parser = words_of("squeue")
    parser.add_argument("-h", "--noheader", action="store_true")
    parser.add_argument("-l", "--long", action="store_true")
    parser.add_argument("-u", "--user", "--users")
    parser.add_argument("--me", action="store_true")
    parser.add_argument("-j", "--jobs", action="append", default=[])
    parser.add_argument("-t", "--states")
    parser.add_argument("-p", "--partition")
    parser.add_argument("-n", "--name")
    parser.add_argument("-o", "--format")
    parser.add_argument("-a", "--all", action="store_true")
    parser.add_argument("-r", "--array", action="store_true")
    parser.add_argument("--start", action="store_true")
    parser.add_argument("-i", "--iterate")
    given = parser.parse_args(words)
    if given.iterate:
        parser.error("-i: use muster ps -w")
    try:
        usual = (PENDING,) if given.start else LIVE
        wanted = statuses(given.states.split(",")) if given.states else usual
        if given.states and given.states.lower() == "all":
            wanted = ()
    except ValueError as error:
        parser.error(str(error))
    with daemon() as client:
        if given.jobs:
            found = [job for job in named_jobs(client, split_ids(given.jobs)) if job.status in wanted]
        else:
            user = own_user() if given.me else given.user
            found = list(client.jobs(statuses=wanted, user=user, pool=given.partition, page=PAGE))
    if given.name:
        found = [job for job in found if job.name in given.name.split(",")]
    if given.start:
        found.sort(key=lambda job: job.predicted_start or inf)
    pattern = given.format or (STARTS if given.start else LONG if given.long else USUAL)
    try:
        lines = formatted(pattern, HEADERS, [_row(job) for job in found], header=not given.noheader)
    except ValueError as error:
        parser.error(str(error))
    typer.echo("\n".join(lines)) if lines else None


def _row(job: JobRecord) -> Mapping[str, str]:
    devices = f"gres/gpu:{job.devices}" if job.devices else "N/A"
    start = job.started if job.started is not None else job.predicted_start
    return {
        "i": job_id(job),
        "A": str(job.number),
        "P": job.pool,
        "j": job.name,
        "u": job.user,
        "t": short_state(job),
        "T": state(job),
        "M": short_clock(elapsed(job)),
        "l": time_limit(job, short_clock),
        "L": time_left(job),
        "D": str(max(1, len(job.nodes))),
        "R": place(job),
        "N": ",".join(job.nodes),
        "r": reason(job),
        "C": str(max(1, job.workers)),
        "b": devices,
        "p": str(job.priority),
        "Q": str(job.priority),
        "V": stamp(job.submitted),
        "S": stamp(start).replace("Unknown", "N/A"),
        "e": stamp(job.ended or job.predicted_finish).replace("Unknown", "N/A"),
        "Y": "(null)",
        "o": " ".join(job.command),
        "a": job.pool,
    }
