"""`muster ps`: a row for each job."""

from collections.abc import Sequence

from muster.cli.render import terminal
from muster.cli.render.job_tree import job_tree
from muster.cli.render.table import fitted, table
from muster.cli.render.terminal import painted
from muster.cli.render.words import clock, short, when
from muster.wire.api.records import OVER, JobRecord

HEADING = ("ID", "NAME", "POOL", "STATUS", "WORKERS", "STEP", "LOSS", "AGE", "FINISH", "WHY")
MORE = ("USER", "PRIORITY", "DEVICES", "NODES", "RATE", "RESIZES", "PREEMPTED", "PAUSE", "LABELS")
"""Columns that the wide table adds before WHY."""

_WORDS = ("NAME", "POOL", "STATUS", "USER", "NODES", "LABELS", "WHY")
"""Left-aligned columns."""


def job_table(jobs: Sequence[JobRecord], now: float, *, wide: bool = False, tree: bool = False) -> str:
    """Render the jobs; wide, with more columns and the reasons in words; as a tree, each below the one
    it comes after. Users are named where there are several, places in the queue where any has one. On a
    narrow terminal columns are left out, unless wide."""
    heading: Sequence[str] = (*HEADING[:-1], *MORE, HEADING[-1]) if wide else HEADING
    branches = job_tree(jobs) if tree else [(job, "") for job in jobs]
    jobs = [job for job, _ in branches]
    rows: Sequence[Sequence[str]] = [
        _wide(job, now) if wide else (*_cells(job, now), why(job)) for job in jobs
    ]
    at = HEADING.index("NAME")
    if tree:
        drawn = zip(branches, rows, strict=True)
        rows = [(*row[:at], line + job.name, *row[at + 1 :]) for (job, line), row in drawn]
    if any(interval(job, now) for job in jobs):
        heading, rows = _with_column(
            "80% INTERVAL", heading, rows, [interval(job, now) or "-" for job in jobs]
        )
    if any(job.start_low is not None and may_start(job) for job in jobs):
        heading, rows = _with_column("START", heading, rows, [start(job, now) for job in jobs])
    if any(job.position for job in jobs):
        heading, rows = _with_column("QUEUE", heading, rows, [_place(job) for job in jobs])
    if not wide and len({job.user for job in jobs}) > 1:
        heading, rows = _with_column("USER", heading, rows, [job.user for job in jobs])
    columns = None if wide else terminal.width()
    if columns is not None:
        heading, rows = fitted(heading, rows, columns, _spare(heading, rows))
    return table(heading, rows, left=[i for i, word in enumerate(heading) if word in _WORDS])


def _spare(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns that a narrow terminal can do without: intervals (`muster show` has them), those that say
    nothing, and a pool that is the same everywhere."""
    same = {name for i, name in enumerate(heading) if len({row[i] for row in rows}) == 1}
    empty = [
        name for i, name in enumerate(heading) if name in same and rows and rows[0][i] in ("-", "")
    ]
    silent = [name for name in ("STEP", "LOSS", "START") if name in empty]
    pool = ["POOL"] if "POOL" in same else []
    return [*silent, "80% INTERVAL", *pool, "STEP", "AGE", "LOSS", "START"]


_BEFORE = {"QUEUE": "WORKERS", "USER": "NAME", "START": "FINISH", "80% INTERVAL": "FINISH"}
"""Columns that are not always there, and the one each stands before; an interval stands after it."""


def _with_column(
    name: str, heading: Sequence[str], rows: Sequence[Sequence[str]], cells: Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    at = heading.index(_BEFORE[name]) + (name == "80% INTERVAL")
    wider = [(*row[:at], cell, *row[at:]) for row, cell in zip(rows, cells, strict=True)]
    return (*heading[:at], name, *heading[at:]), wider


def _place(job: JobRecord) -> str:
    return "-" if job.position is None else str(job.position)


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
        ",".join(f"{key}={value}" for key, value in job.labels.items()) or "-",
        why(job) if job.status in OVER else job.reason or why(job),
    )


def why(job: JobRecord) -> str:
    """The reason's code; of a finished job the first line of its error, or why it was not run or
    stopped."""
    if job.status in ("skipped", "pruned"):
        return job.reason
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
    """Steps done; of a session, that it is one."""
    if job.step is None:
        return "interactive" if job.interactive else "-"
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


def may_start(job: JobRecord) -> bool:
    """Whether it has not started, or waits again."""
    return job.status == "waiting" or (job.started is None and job.status not in OVER)


def start(job: JobRecord, now: float) -> str:
    """When it is expected to start, or to start again; a dash if it runs."""
    if not may_start(job):
        return "-"
    return "unknown" if job.predicted_start is None else when(max(job.predicted_start, now + 1), now)


def interval(job: JobRecord, now: float) -> str:
    """The 80 % interval of its finish, `4m to 12m`; of one that is unknown, `4m or more`."""
    low, high = job.finish_low, job.finish_high
    if low is None or job.status in OVER or (high is not None and high <= now):
        return ""
    begin = clock(max(0.0, low - now))
    if job.predicted_finish is None or high is None:
        return f"{begin} or more"
    return f"{begin} to {clock(max(0.0, high - now))}"
