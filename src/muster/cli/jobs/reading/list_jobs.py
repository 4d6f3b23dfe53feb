"""`muster ps`."""

import shlex
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from muster.cli.choices import ListFormat
from muster.cli.connect import daemon
from muster.cli.jobs.filters import JobFilters
from muster.cli.jobs.select import PAGE, note_unknown_pool
from muster.cli.options import JOBS_SHOWN
from muster.cli.render import terminal
from muster.cli.render.answers import as_json
from muster.cli.render.job_table import job_table
from muster.cli.render.terminal import complain, hint
from muster.cli.watch import shown
from muster.wire.api.records import LIVE, OVER, JobRecord

if TYPE_CHECKING:
    from muster.client import Client


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of a list is shown, and how."""

    every: bool = False
    limit: int = JOBS_SHOWN
    page: int = 1
    tree: bool = False


@dataclass(slots=True)
class Listing:
    """The jobs of one page of `ps`, and the counts of all."""

    filters: JobFilters
    shown: Shown
    jobs: list[JobRecord] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    more: bool = False

    def fetch(self, client: "Client") -> None:
        """Ask for the page: active jobs come first."""
        first = (self.shown.page - 1) * self.shown.limit
        found = list(islice(self._from(client), first, first + self.shown.limit + 1))
        self.jobs, self.more = found[: self.shown.limit], len(found) > self.shown.limit

    def _from(self, client: "Client") -> Iterator[JobRecord]:
        cursor: str | None = None
        wanted = self.filters.selection(time.time())
        wanted = replace(wanted, statuses=wanted.statuses or (() if self.shown.every else LIVE))
        while True:
            most = min(self.shown.page * self.shown.limit + 1, PAGE)
            page = client.active_jobs(**asdict(wanted), page=most, cursor=cursor)
            self.counts = page.counts or self.counts
            yield from page.jobs
            cursor = page.next
            if cursor is None:
                return

    def summary(self) -> str:
        """`130 live: 1 running, 129 waiting; 2,311 ended; showing 100, next: muster ps --page 2`."""
        live = {status: self.counts[status] for status in LIVE if self.counts.get(status)}
        running = sum(count for status, count in live.items() if status != "waiting")
        ended = sum(self.counts.get(status, 0) for status in OVER)
        parts = [f"{running + live.get('waiting', 0):,} live"]
        if live:
            parts[0] += f": {running:,} running, {live.get('waiting', 0):,} waiting"
        parts.append(f"{ended:,} ended")
        if self.more or self.shown.page > 1:
            parts.append(f"showing {len(self.jobs):,}")
        if self.more:
            parts[-1] += f", next: {self._next()}"
        return "; ".join(parts)

    def _next(self) -> str:
        """The command that lists the next page of the same list."""
        words = ["muster", "ps"]
        words += ["-a"] if self.shown.every else []
        words += self.filters.words()
        words += [] if self.shown.limit == JOBS_SHOWN else ["-n", str(self.shown.limit)]
        return shlex.join([*words, "--page", str(self.shown.page + 1)])


def list_jobs(form: ListFormat, filters: JobFilters, how: Shown, *, watch: bool) -> None:
    """Print the jobs, how many there are, and what to type next."""
    listing = Listing(filters, how)

    def answer() -> str:
        listing.fetch(client)
        if form == "json":
            return as_json(listing.jobs, indent=0 if watch else 2)
        return job_table(listing.jobs, time.time(), wide=form == "wide", tree=how.tree)

    def note() -> None:
        if not listing.jobs:
            note_unknown_pool(client, filters.pool)
        if form == "json" or not terminal.on_terminal():
            if listing.more:  # a script must not take a page for all
                complain(listing.summary())
            return
        hint(listing.summary())
        if listing.jobs:
            first = listing.jobs[0].number
            hint(f"why: muster show {first} · logs: muster logs -f {first}")
        elif not any(listing.counts.values()) and not filters.given:
            hint("No jobs yet: muster run train.py")
        elif not how.every:
            hint("No active jobs; use -a for all.")

    with daemon() as client:
        shown(answer, watch=watch, note=note)
