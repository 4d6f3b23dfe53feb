"""`muster status`: the whole state in one screen."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from muster.cli.connect import daemon
from muster.cli.jobs.filters import ME
from muster.cli.render.answers import as_json as json_text
from muster.cli.render.job_table import job_table
from muster.cli.render.pool_table import pool_table
from muster.cli.render.terminal import bold, complain, hint
from muster.cli.render.words import clock, counted
from muster.wire.api.job_relations import was_spared
from muster.wire.api.records import LIVE, JobRecord, NodeRecord, PoolRecord, StatusRecord

if TYPE_CHECKING:
    from muster.client import Client

SHOWN = 10
"""Jobs and notes that are shown; the rest is counted."""
RECENT = 24 * 3600.0
"""s for which a failure needs attention."""
LONG = 3600.0
"""s of waiting that need attention."""
STARTING = "starting"
"""The role of a daemon that loads."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What the screen shows."""

    daemon: StatusRecord
    pools: tuple[PoolRecord, ...]
    jobs: tuple[JobRecord, ...]
    """The caller's live ones."""
    live: int
    """How many those are."""
    attention: tuple[str, ...]


def show_status(*, as_json: bool) -> None:
    """Print the cluster, pools, the caller's jobs, and what needs attention."""
    with daemon() as client:
        if client.status().role == STARTING:  # it answers nothing else until it stands
            complain("the daemon is starting; waiting until it knows its devices and jobs")
        found = overview(client, time.time())
    if as_json:
        typer.echo(json_text(found))
        return
    typer.echo(screen(found, time.time()))
    hint("\nall jobs: muster ps -a · live: muster top · one job: muster show JOB")


def overview(client: "Client", now: float) -> Overview:
    """Ask the daemon for what the screen shows."""
    mine = client.active_jobs(statuses=LIVE, user=ME, page=100)
    failed = client.jobs(statuses=("failed", "skipped"), user=ME, since=now - 7 * RECENT, page=100)
    status = client.status()
    notes = attention(status, client.nodes(), [*mine.jobs, *failed], now)
    live = sum(mine.counts.get(status, 0) for status in LIVE)
    return Overview(status, tuple(client.pools()), mine.jobs[:SHOWN], live, tuple(notes))


def attention(
    daemon: StatusRecord, nodes: Sequence[NodeRecord], jobs: Sequence[JobRecord], now: float
) -> Iterator[str]:
    """Yield what somebody should look at, the most pressing first."""
    if daemon.trouble:
        yield f"the daemon is in trouble: {daemon.trouble}"
    if daemon.warning:
        yield daemon.warning
    for node in nodes:
        if node.state != "up" or node.trouble:
            why = node.trouble or node.why
            yield f"node {node.name} is {node.state}{f': {why}' if why else ''}"
    for job in jobs:
        note = _about(job, now)
        if note:
            yield f"job {job.number} ({job.name}) {note} (muster show {job.number})"


def _about(job: JobRecord, now: float) -> str:
    """What is odd about a job; empty: nothing."""
    if was_spared(job.status, job.after) or (job.interactive and job.status == "failed"):
        return ""  # a session's exit code is that of the last command typed
    if job.status in ("failed", "skipped"):
        ago = now - (job.ended or now)
        why = job.reason if job.status == "skipped" else (job.error or "").partition("\n")[0]
        return f"{job.status} {clock(ago)} ago{f': {why}' if why else ''}" if ago <= RECENT else ""
    if job.status == "waiting" and job.position is not None and now - job.submitted > LONG:
        return f"has waited for {clock(now - job.submitted)}: {job.reason or job.code}"
    if _is_late(job, now):
        return f"is late by {clock(now - (job.predicted_finish or now))}"
    return job.noticed if job.status == "running" else ""


def _is_late(job: JobRecord, now: float) -> bool:
    """Whether a job runs on past the interval in which it was expected to end."""
    expected = job.finish_high if job.finish_high is not None else job.predicted_finish
    return job.status != "waiting" and not job.interactive and expected is not None and expected < now


def screen(found: Overview, now: float) -> str:
    """Return the screen as text."""
    daemon = found.daemon
    used = daemon.devices - daemon.free
    head = (
        f"{bold(daemon.cluster)}: {used} of {counted(daemon.devices, 'device')} in use, "
        f"{counted(daemon.running, 'job')} running, {daemon.pending:,} waiting, "
        f"policy {daemon.policy}, up {clock(now - daemon.since)}"
    )
    parts = [head, pool_table(found.pools), _jobs(found, now)]
    notes = list(found.attention[:SHOWN])
    if len(found.attention) > SHOWN:
        notes.append(f"and {len(found.attention) - SHOWN} more")
    parts.append("\n".join([bold("needs attention"), *(f"  {note}" for note in notes or ["nothing"])]))
    return "\n\n".join(parts)


def _jobs(found: Overview, now: float) -> str:
    if not found.jobs:
        return f"{bold('your jobs')}\n  none is live"
    more = found.live - len(found.jobs)
    lines = [bold("your jobs"), job_table(found.jobs, now)]
    return "\n".join([*lines, f"and {more} more: muster ps -u {ME}"] if more > 0 else lines)
