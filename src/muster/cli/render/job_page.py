"""`muster show`: all about one job."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from muster.cli.render.changes import telling
from muster.cli.render.job_table import finish, loss, step
from muster.cli.render.outcome import first_error
from muster.cli.render.sparkline import sparkline
from muster.cli.render.table import table
from muster.cli.render.terminal import bold, painted
from muster.cli.render.words import clock, counted, moment, short, when
from muster.wire.records import (
    OVER,
    ChangeRecord,
    JobDetail,
    JobRecord,
    PredictionRecord,
    TaskRecord,
    prediction_error,
)

LAST = 12
"""Changes and predictions that are shown unless all are asked for: the last changes, and predictions
from the first to the last."""


def job_page(detail: JobDetail, now: float, *, every: bool = False) -> str:
    """What was asked, what it has and why, its progress, tasks, changes and predictions."""
    job = detail.job
    lines = [f"{bold(job.name)} ({job.number}), {painted(job.status)}", ""]
    lines += [f"  {name:<10}{text}" for name, text in _facts(detail, now)]
    for title, part in (
        ("Tasks", _tasks(detail.tasks)),
        ("Changes", _changes(detail.changes if every else telling(detail.changes)[-LAST:])),
        ("Predictions", _predictions(_some(detail.predictions, every), job)),
    ):
        if part:
            lines += ["", bold(title), part]
    return "\n".join(lines)


def _facts(detail: JobDetail, now: float) -> Iterator[tuple[str, str]]:
    job = detail.job
    yield "user", f"{job.user}, pool {job.pool}, priority {job.priority}"
    yield "command", shlex.join(job.command) or "-"
    yield "asked", _asked(job)
    yield "has", _has(job)
    if job.status not in OVER and (job.code or job.reason):
        yield "why", ": ".join(filter(None, (job.code, job.reason)))
    yield "progress", _progress(job)
    curve = sparkline([value for _, value in detail.losses])
    if curve:
        yield "loss", f"{curve}  {detail.losses[0][1]:.4g} to {detail.losses[-1][1]:.4g}"
    yield "submitted", f"{moment(job.submitted)}, {when(job.submitted, now)}{_waited(job, now)}"
    yield "finish", _finish(job, now)
    yield "changed", _changed(job)
    if job.failures or job.losses:
        yield "failed", f"{counted(job.failures, 'task')} by their own fault, {job.losses} by others'"
    if job.error:
        first, *rest = job.error.splitlines()
        yield "error", "\n".join([first, *(f"{'':12}{line}" for line in rest)])


def _asked(job: JobRecord) -> str:
    how = "changed while it trains" if job.live else "stopped and started to change"
    return f"{job.asked or '-'} workers, {how}"


def _has(job: JobRecord) -> str:
    if not job.nodes:
        return "nothing now"
    servers = f" and {counted(job.servers, 'server')}" if job.servers else ""
    where = ", ".join(job.nodes)
    return (
        f"{counted(job.workers, 'worker')}{servers} with {counted(job.devices, 'device')} "
        f"on {where}, generation {job.generation}"
    )


def _progress(job: JobRecord) -> str:
    if job.step is None:
        return "not reported"
    parts = [f"step {step(job)}"]
    if job.steps:
        parts[0] += f" ({job.step / job.steps:.0%})"
    if job.epoch is not None:
        parts.append(f"epoch {job.epoch}")
    if job.loss is not None:
        parts.append(f"loss {loss(job)}")
    if job.rate is not None:
        parts.append(f"{job.rate:,.0f} samples/s")
    return ", ".join(parts)


def _waited(job: JobRecord, now: float) -> str:
    if job.started is None:
        return ", start expected " + when(job.predicted_start, now) if job.predicted_start else ""
    return f", waited {clock(job.started - job.submitted)}"


def _finish(job: JobRecord, now: float) -> str:
    if job.ended is not None and job.status in OVER:
        told = f"{moment(job.ended)}, after {clock(job.ended - job.submitted)}"
        first, error = job.first_predicted_finish, first_error(job)
        if first is not None and error is not None:
            told += f"; first predicted after {clock(first - job.submitted)} ({error:+.0%})"
        return told
    expected = job.predicted_finish
    return "unknown" if expected is None else f"expected {moment(expected)}, {finish(job, now)}"


def _changed(job: JobRecord) -> str:
    return (
        f"{counted(job.resizes, 'resize')}, {counted(job.preemptions, 'preemption')}, "
        f"training paused {short(job.pause)} in all"
    )


def _tasks(tasks: Sequence[TaskRecord]) -> str:
    if not tasks:
        return ""
    heading = ("TASK", "NODE", "DEVICES", "STATUS", "GENERATION", "ATTEMPT", "ENDED BY", "LOG")
    rows = [
        (
            task.task,
            task.node,
            ",".join(map(str, task.devices)) or "-",
            painted(task.status),
            str(task.generation),
            str(task.attempt),
            _end(task),
            task.log,
        )
        for task in tasks
    ]
    return table(heading, rows, left=(0, 1, 2, 3, 6, 7))


def _end(task: TaskRecord) -> str:
    if task.error:
        return task.error
    if task.signal is not None:
        return f"signal {task.signal}"
    return "-" if task.code is None else f"code {task.code}"


def _changes(changes: Sequence[ChangeRecord]) -> str:
    if not changes:
        return ""
    rows = [(moment(change.at), change.kind, change.text) for change in changes]
    return table(("AT", "WHAT", "IN WORDS"), rows, left=(0, 1, 2))


def _some(predictions: Sequence[PredictionRecord], every: bool) -> Sequence[PredictionRecord]:
    """All of them, or a few at even distances."""
    last = len(predictions) - 1
    if every or last < LAST:
        return predictions
    return [predictions[i * last // (LAST - 1)] for i in range(LAST)]


def _predictions(predictions: Sequence[PredictionRecord], job: JobRecord) -> str:
    if not predictions:
        return ""
    rows = []
    for each in (_held_against(each, job) for each in predictions):
        real = "-" if each.real is None else _predicted(each, each.real)
        error = "-" if each.error is None else f"{each.error:+.0%}"
        rows.append((moment(each.at), each.what, _predicted(each, each.predicted), real, error))
    return table(("MADE AT", "OF", "PREDICTED", "REAL", "ERROR"), rows, left=(0, 1))


def _held_against(prediction: PredictionRecord, job: JobRecord) -> PredictionRecord:
    """With what came of it, where the job's own end tells that."""
    real = job.ended
    if prediction.what != "finish" or prediction.real is not None or real is None:
        return prediction
    error = prediction_error(prediction.predicted, real, prediction.at)
    return replace(prediction, real=real, error=error)


def _predicted(prediction: PredictionRecord, value: float) -> str:
    """A step's time as it is; a moment as the time from the prediction to it."""
    if prediction.what == "step":
        return f"{value * 1000:,.0f} ms"
    return clock(max(0.0, value - prediction.at))
