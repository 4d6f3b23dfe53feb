"""`muster ps`."""

import time
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


def list_jobs(
    form: ListFormat, *, every: bool, user: str | None, pool: str | None, limit: int, watch: bool
) -> None:
    """Print the jobs, and what to type next."""
    found: list[JobRecord] = []
    most = limit + 1  # to know whether there are more

    def answer() -> str:
        page = min(most, PAGE)
        jobs = client.jobs(statuses=() if every else LIVE, user=user, pool=pool, page=page)
        found[:] = islice(jobs, most)
        if form == "json":
            return as_json(found[:limit], indent=0 if watch else 2)
        return job_table(found[:limit], time.time(), wide=form == "wide")

    def note() -> None:
        if form == "json":
            return
        if not found:
            hint("No jobs yet: muster run train.py" if every else "No active jobs; use -a for all.")
        elif len(found) > limit:
            hint(f"There are more: muster ps -n {2 * limit}")
        else:
            hint(f"why: muster show {found[0].number} · logs: muster logs -f {found[0].number}")

    with daemon() as client:
        shown(answer, watch=watch, note=note)
