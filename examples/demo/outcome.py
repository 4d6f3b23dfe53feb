"""Predicted against real finish, for a set of jobs."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from muster.cli.render.job_page import first_error
from muster.cli.render.job_table import loss
from muster.cli.render.table import table
from muster.cli.render.terminal import painted
from muster.cli.render.words import clock, short
from muster.wire.api.foresight_records import JobForecastRecord
from muster.wire.api.records import JobRecord, prediction_error

HEADING = (
    "JOB",
    "KIND",
    "POOL",
    "STATUS",
    "MADE",
    "PREDICTED",
    "80% INTERVAL",
    "REAL",
    "WITHIN",
    "ERROR",
    "RESIZES",
    "PREEMPTED",
    "PAUSE",
    "LOSS",
)


def outcome_table(
    jobs: Sequence[JobRecord],
    kinds: Mapping[str, str] | None = None,
    forecasts: Mapping[int, Sequence[JobForecastRecord]] | None = None,
) -> str:
    """Render jobs in order of submission, from which their times count.

    `kinds`: what each job trains, by name; otherwise its script's name. `forecasts`: what was kept of
    each job, by number; the first of its finish is shown, and when it was made.
    """
    ordered = sorted(jobs, key=lambda job: (job.submitted, job.number))
    rows = [
        _row(
            job, (kinds or {}).get(job.name) or script(job), first_of((forecasts or {}).get(job.number))
        )
        for job in ordered
    ]
    return table(HEADING, rows, left=(0, 1, 2, 3, 4))


def first_of(forecasts: Sequence[JobForecastRecord] | None) -> JobForecastRecord | None:
    """Return the first forecast of a finish."""
    return next((each for each in forecasts or () if each.what == "finish"), None)


def _row(job: JobRecord, kind: str, said: JobForecastRecord | None) -> tuple[str, ...]:
    return (
        job.name,
        kind,
        job.pool,
        painted(job.status),
        "-" if said is None else f"at {said.mark}",
        _after(job, job.first_predicted_finish if said is None else said.middle),
        "-" if said is None else f"{_after(job, said.low)} to {_after(job, said.high)}",
        _after(job, job.ended),
        "-" if said is None or job.ended is None else _place(said, job.ended),
        _error(job) if said is None else _off(job, said),
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


def _place(said: JobForecastRecord, ended: float) -> str:
    if said.low is not None and ended < said.low:
        return "early"
    return "late" if said.high is not None and ended > said.high else "yes"


def _off(job: JobRecord, said: JobForecastRecord) -> str:
    """The error of a forecast, over the time that was left when it was made."""
    if said.middle is None or job.ended is None:
        return "-"
    error = prediction_error(said.middle, job.ended, said.made)
    return "-" if error is None else f"{error:+.0%}"


def _error(job: JobRecord) -> str:
    error = first_error(job)
    return "-" if error is None else f"{error:+.0%}"
