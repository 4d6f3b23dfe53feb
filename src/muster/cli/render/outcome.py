"""How a set of jobs went: what was predicted of each, and what came of it."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from muster.cli.render.job_table import loss
from muster.cli.render.table import table
from muster.cli.render.terminal import painted
from muster.cli.render.words import clock, short
from muster.wire.records import JobRecord, prediction_error

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
    """Jobs in the order they were submitted in; times count from their submission.

    `kinds`: what each job trains, by its name; else the name of its script.
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
    """The script of its command, without folder and ending; else the command's first word."""
    scripts = [word for word in job.command if word.endswith(".py")]
    words = scripts or list(job.command)
    return PurePath(words[0]).stem if words else "-"


def first_error(job: JobRecord) -> float | None:
    """How much later (+) or earlier (-) it was first expected to end than it did, of its whole time."""
    if job.ended is None or job.first_predicted_finish is None:
        return None
    return prediction_error(job.first_predicted_finish, job.ended, job.submitted)


def _after(job: JobRecord, at: float | None) -> str:
    return "-" if at is None else clock(max(0.0, at - job.submitted))


def _error(job: JobRecord) -> str:
    error = first_error(job)
    return "-" if error is None else f"{error:+.0%}"
