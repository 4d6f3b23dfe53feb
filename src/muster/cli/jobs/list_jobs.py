"""`muster ps`."""

import time
from dataclasses import dataclass
from itertools import islice

from muster.cli.choices import ListFormat
from muster.cli.connect import daemon
from muster.cli.render.answers import as_json
from muster.cli.render.job_table import job_table
from muster.cli.render.terminal import hint
from muster.cli.watch import shown
from muster.wire.records import LIVE, JobRecord

PAGE = 1000
"""Jobs per request: the API's maximum."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list."""

    every: bool
    user: str | None
    pool: str | None
    limit: int


def list_jobs(wanted: JobFilter, form: ListFormat, *, watch: bool) -> None:
    """Print the jobs, and what to type next."""
    found: list[JobRecord] = []

    def answer() -> str:
        statuses = () if wanted.every else LIVE
        # One more than is shown, to know whether to mention that there are more.
        most = wanted.limit + 1
        page = min(most, PAGE)
        jobs = client.jobs(statuses=statuses, user=wanted.user, pool=wanted.pool, page=page)
        found[:] = islice(jobs, most)
        some = found[: wanted.limit]
        if form == "json":
            return as_json(some, indent=0 if watch else 2)
        return job_table(some, time.time(), wide=form == "wide")

    with daemon() as client:
        shown(answer, watch=watch, note=lambda: _note(found, wanted, form))


def _note(found: list[JobRecord], wanted: JobFilter, form: ListFormat) -> None:
    if form == "json":
        return
    if not found:
        hint("No jobs yet: muster run train.py" if wanted.every else "No active jobs; use -a for all.")
    elif len(found) > wanted.limit:
        hint(f"There are more: muster ps -n {2 * wanted.limit}")
    else:
        hint(f"why: muster show {found[0].number} · logs: muster logs -f {found[0].number}")
