"""`sacct`: jobs of the past, too."""

import time
from collections.abc import Callable, Sequence

import typer

from muster.cli.compat.job_ids import job_id, named_jobs, split_ids
from muster.cli.compat.words import (
    elapsed,
    exit_code,
    long_clock,
    reason,
    stamp,
    state,
    statuses,
    time_limit,
    words_of,
)
from muster.cli.connect import daemon
from muster.client.errors import ClientError
from muster.executors.accounts import own_user
from muster.wire.api.records import JobRecord

USUAL = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
PAGE = 1000
WIDTHS = {"JobID": 12, "State": 10, "Submit": 19, "Start": 19, "End": 19, "NodeList": 15}
WIDTH = 10
_DAY = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%m/%d/%y", "%m/%d")
VALUES: dict[str, Callable[[JobRecord], str]] = {
    "JobID": job_id,
    "JobIDRaw": lambda job: str(job.number),
    "JobName": lambda job: job.name,
    "Partition": lambda job: job.pool,
    "Account": lambda job: job.pool,
    "User": lambda job: job.user,
    "AllocCPUS": lambda job: str(max(1, job.workers)),
    "NCPUS": lambda job: str(max(1, job.workers)),
    "NTasks": lambda job: job.asked,
    "NNodes": lambda job: str(max(1, len(job.nodes))),
    "NodeList": lambda job: ",".join(job.nodes) or "None assigned",
    "AllocTRES": lambda job: f"gres/gpu={job.devices}" if job.devices else "",
    "State": state,
    "ExitCode": exit_code,
    "Elapsed": lambda job: long_clock(elapsed(job)),
    "ElapsedRaw": lambda job: str(int(elapsed(job))),
    "Timelimit": lambda job: time_limit(job, long_clock),
    "Submit": lambda job: stamp(job.submitted),
    "Start": lambda job: stamp(job.started),
    "End": lambda job: stamp(job.ended),
    "Priority": lambda job: str(job.priority),
    "Reason": reason,
}


def run_sacct(words: Sequence[str]) -> None:
    """Print jobs as `sacct` does."""
    parser = words_of("sacct")
    parser.add_argument("-j", "--jobs", action="append", default=[])
    parser.add_argument("-u", "--user", "--uid")
    parser.add_argument("-a", "--allusers", action="store_true")
    parser.add_argument("-o", "--format", default=USUAL)
    parser.add_argument("-p", "--parsable", action="store_true")
    parser.add_argument("-P", "--parsable2", action="store_true")
    parser.add_argument("-n", "--noheader", action="store_true")
    parser.add_argument("-s", "--state")
    parser.add_argument("-r", "--partition")
    parser.add_argument("-S", "--starttime")
    parser.add_argument("-E", "--endtime")
    parser.add_argument("--name")
    parser.add_argument("-X", "--allocations", action="store_true")
    given = parser.parse_args(words)
    try:
        fields = [_field(name) for name in given.format.split(",")]
        wanted = statuses(given.state.split(",")) if given.state else ()
        since, before = (_time(text) for text in (given.starttime, given.endtime))
    except ValueError as error:
        parser.error(str(error))
    with daemon() as client:
        if given.jobs:
            found = _named(lambda ids: list(named_jobs(client, ids)), split_ids(given.jobs))
        else:
            user = None if given.allusers else given.user or own_user()
            found = list(client.jobs(statuses=wanted, user=user, pool=given.partition, page=PAGE))
            today = _time(time.strftime("%Y-%m-%d")) or 0.0
            found = [job for job in found if (job.ended or time.time()) >= (since or today)]
    kept = [job for job in found if before is None or job.submitted <= before]
    kept = [job for job in kept if not given.name or job.name in given.name.split(",")]
    ordered = sorted(kept, key=lambda job: job.number)
    rows = [[VALUES[field](job) for field, _ in fields] for job in ordered]
    form = "|" if given.parsable2 else "||" if given.parsable else ""
    for line in _lines(fields, rows, form, header=not given.noheader):
        typer.echo(line)


def _named(ask: Callable[[list[str]], list[JobRecord]], ids: list[str]) -> list[JobRecord]:
    """Return those of the jobs that there are; as with Slurm, others are left out."""
    found: list[JobRecord] = []
    for each in ids:
        try:
            found += ask([each])
        except ClientError as error:
            if error.status != 404:
                raise
    return found


def _field(text: str) -> tuple[str, int]:
    """`JobName%30`: a field, and the width of its column."""
    name, _, width = text.partition("%")
    known = {each.lower(): each for each in VALUES}
    if name.lower() not in known:
        raise ValueError(f"Invalid field requested: {name!r}; there are {', '.join(VALUES)}")
    found = known[name.lower()]
    return found, abs(int(width)) if width else WIDTHS.get(found, WIDTH)


def _time(text: str | None) -> float | None:
    if text is None or text.lower() == "now":
        return None
    found = {"today": time.strftime("%Y-%m-%d")}.get(text.lower(), text)
    ago = found.lower().removeprefix("now-")
    if ago != found.lower():
        return time.time() - _span(ago)
    for form in _DAY:
        try:
            parsed = time.strptime(found, form)
        except ValueError:
            continue
        year = parsed.tm_year if "%Y" in form or "%y" in form else time.localtime().tm_year
        return time.mktime((year, *parsed[1:8], -1))
    raise ValueError(f"Invalid time specification: {text}")


def _span(text: str) -> float:
    """`7days`, `2hours` in s."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    unit = text[len(number) :][:1]
    if not number.isdigit() or unit not in units:
        raise ValueError(f"Invalid time specification: now-{text}")
    return float(number) * units[unit]


def _lines(
    fields: Sequence[tuple[str, int]],
    rows: Sequence[Sequence[str]],
    form: str,
    *,
    header: bool,
) -> list[str]:
    """Return the table; `form`: "|" between columns, "||" also at the end of lines, empty: aligned."""
    names = [name for name, _ in fields]
    if form:
        end = form[1:]
        return ["|".join(row) + end for row in ([names] if header else []) + [*map(list, rows)]]
    widths = [width for _, width in fields]

    def line(cells: Sequence[str]) -> str:
        return " ".join(cell[:width].rjust(width) for cell, width in zip(cells, widths, strict=True))

    rule = line(["-" * width for width in widths])
    return [*([line(names), rule] if header else []), *(line(row) for row in rows)]
