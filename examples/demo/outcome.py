"""Predicted against real finish, for a set of jobs."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from muster.cli.render.job_page import first_error
from muster.cli.render.job_table import loss
from muster.cli.render.table import table
from muster.cli.render.terminal import painted
from muster.cli.render.words import clock, short
from muster.wire.records import JobRecord

HEADING = (
    "JOB",
    "KIND",
    "POOL",
    "STATUS",
    "PREDICTED",
    "REAL",
    "ERROR",
    "RESIZES",
    "PREEMPTED",
    "PAUSE",
    "LOSS",
)


def outcome_table(jobs: Sequence[JobRecord], kinds: Mapping[str, str] | None = None) -> str:
    """Render jobs in order of submission, from which their times count.

    `kinds`: what each job trains, by name; otherwise its script's name.
    """
    ordered = sorted(jobs, key=lambda job: (job.submitted, job.number))
    rows = [_row(job, (kinds or {}).get(job.name) or script(job)) for job in ordered]
    return table(HEADING, rows, left=(0, 1, 2, 3))


def _row(job: JobRecord, kind: str) -> tuple[str, ...]:
    return (
        job.name,
        kind,
        job.pool,
        painted(job.status),
        _after(job, job.first_predicted_finish),
        _after(job, job.ended),
        _error(job),
        str(job.resizes),
        str(job.preemptions),
        short(job.pause),
        loss(job),
    )


def script(job: JobRecord) -> str:
    """The name of its script, or else of its program."""
    scripts = [word for word in job.command if word.endswith(".py")]
    words = scripts or list(job.command)
    return PurePath(words[0]).stem if words else "-"


def _after(job: JobRecord, at: float | None) -> str:
    return "-" if at is None else clock(max(0.0, at - job.submitted))


def _error(job: JobRecord) -> str:
    error = first_error(job)
    return "-" if error is None else f"{error:+.0%}"
