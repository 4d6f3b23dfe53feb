"""`muster ps`: a row for each job."""

from collections.abc import Sequence

from muster.cli.render.table import table
from muster.cli.render.terminal import painted
from muster.cli.render.words import clock, short, when
from muster.wire.records import OVER, JobRecord

HEADING = ("ID", "NAME", "POOL", "STATUS", "WORKERS", "STEP", "LOSS", "AGE", "FINISH", "WHY")
MORE = ("USER", "PRIORITY", "DEVICES", "NODES", "RATE", "RESIZES", "PREEMPTED", "PAUSE")
"""Columns that the wide table adds before WHY."""

_WORDS = ("NAME", "POOL", "STATUS", "USER", "NODES", "WHY")
"""Left-aligned columns."""


def job_table(jobs: Sequence[JobRecord], now: float, *, wide: bool = False) -> str:
    """Render the jobs; wide, with more columns and the reasons in words. Users are named where there
    are several."""
    heading: tuple[str, ...] = (*HEADING[:-1], *MORE, HEADING[-1]) if wide else HEADING
    rows = [_wide(job, now) if wide else (*_cells(job, now), why(job)) for job in jobs]
    if not wide and len({job.user for job in jobs}) > 1:
        at = HEADING.index("NAME")
        heading = (*heading[:at], "USER", *heading[at:])
        rows = [(*row[:at], job.user, *row[at:]) for job, row in zip(jobs, rows, strict=True)]
    return table(heading, rows, left=[i for i, word in enumerate(heading) if word in _WORDS])


def _cells(job: JobRecord, now: float) -> tuple[str, ...]:
    return (
        str(job.number),
        job.name,
        job.pool,
        painted(job.status),
        workers(job),
        step(job),
        loss(job),
        clock(now - job.submitted),
        finish(job, now),
    )


def _wide(job: JobRecord, now: float) -> tuple[str, ...]:
    return (
        *_cells(job, now),
        job.user,
        str(job.priority),
        str(job.devices),
        ",".join(job.nodes) or "-",
        "-" if job.rate is None else f"{job.rate:,.0f}/s",
        str(job.resizes),
        str(job.preemptions),
        short(job.pause),
        why(job) if job.status in OVER else job.reason or why(job),
    )


def why(job: JobRecord) -> str:
    """The reason's code; for a finished job the first line of its error."""
    if job.status in OVER:
        return (job.error or "-").splitlines()[0]
    return job.code or "-"


def workers(job: JobRecord) -> str:
    """Workers it has of those it asks for: `3/1..8`, with servers `3+2/1..8+2`."""
    if job.status in OVER:
        return job.asked or "-"
    held = f"{job.workers}+{job.servers}" if job.servers else str(job.workers)
    return f"{held}/{job.asked}" if job.asked else held


def step(job: JobRecord) -> str:
    if job.step is None:
        return "-"
    return f"{job.step:,}" if job.steps is None else f"{job.step:,}/{job.steps:,}"


def loss(job: JobRecord) -> str:
    return "-" if job.loss is None else f"{job.loss:.4g}"


def finish(job: JobRecord, now: float) -> str:
    """When it ended or is expected to; `late` once that time has passed."""
    if job.ended is not None:
        return when(job.ended, now)
    if job.predicted_finish is None:
        return "unknown"
    if job.predicted_finish <= now:
        return f"late {clock(now - job.predicted_finish)}"
    return when(job.predicted_finish, now)
