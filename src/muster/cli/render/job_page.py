"""`muster show`: one job in detail."""

import shlex
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace

from muster.cli.render.changes import notable
from muster.cli.render.job_table import finish, loss, step
from muster.cli.render.sparkline import sparkline
from muster.cli.render.table import table
from muster.cli.render.terminal import bold, painted
from muster.cli.render.words import clock, counted, moment, short, when
from muster.wire.api.job_relations import ParentRecord
from muster.wire.api.records import (
    OVER,
    ChangeRecord,
    JobDetail,
    JobRecord,
    PlanRecord,
    PredictionRecord,
    ProgramRecord,
    TaskRecord,
    prediction_error,
    workers_asked,
)

WORTH = 0.2
"""Width of a finish's interval, over the time left, from which it is shown."""
LAST = 12
"""Changes and predictions shown unless all are requested: the last changes, and predictions spread
from the first to the last."""


def job_page(detail: JobDetail, now: float, *, every: bool = False) -> str:
    """Render request, allocation and reason, progress, tasks, changes and predictions."""
    job = detail.job
    lines = [f"{bold(job.name)} ({job.number}), {painted(job.status)}", ""]
    lines += [f"  {name:<10}{text}" for name, text in _facts(detail, now)]
    for title, part in (
        ("Tasks", _tasks(detail.tasks)),
        ("Changes", _changes(detail.changes if every else notable(detail.changes)[-LAST:])),
        ("Predictions", _predictions(_some(detail.predictions, every), job)),
    ):
        if part:
            lines += ["", bold(title), part]
    return "\n".join(lines)


def _facts(detail: JobDetail, now: float) -> Iterator[tuple[str, str]]:
    job = detail.job
    decides = f", policy {detail.policy}" if detail.policy else ""
    yield "user", f"{job.user}, pool {job.pool}{decides}, priority {job.priority}"
    yield "command", shlex.join(job.command) or "-"
    if detail.program is not None:
        yield from _program(detail.program, job.command)
    yield from _relations(job)
    how = "resized live" if job.live else "restarted to resize"
    yield "asks for", f"{workers_asked(job.asked or '-')}, {how}"
    yield from (("note", caveat) for caveat in detail.caveats)
    yield "has", _has(job)
    if (job.status not in OVER or job.status in ("skipped", "pruned")) and (job.code or job.reason):
        yield "why", ": ".join(filter(None, (job.code, job.reason)))
    if detail.plan is not None:
        yield "plan", _plan(detail.plan)
    yield "progress", _progress(job)
    if job.slowed is not None:
        yield "slowed", f"by {job.slowed:.0%} beside job {job.beside}"
    if job.batch is not None:
        yield "batch", _batch(job)
    curve = sparkline([value for _, value in detail.losses])
    if curve:
        yield "loss", f"{curve}  {detail.losses[0][1]:.4g} to {detail.losses[-1][1]:.4g}"
    if job.until:
        yield "ends by", job.until + _ends_after(job)
    if job.noticed:
        yield "noticed", job.noticed
    if job.converged:
        yield "converged", job.converged
    yield "submitted", f"{moment(job.submitted)}, {when(job.submitted, now)}{_waited(job, now)}"
    yield "finish", _finish(job, now)
    changes = f"{counted(job.resizes, 'resize')}, {counted(job.preemptions, 'preemption')}"
    yield "changes", f"{changes}, training paused for {short(job.pause)} in total"
    if job.failures or job.losses:
        yield "failures", f"{counted(job.failures, 'task')} failed, {job.losses} lost"
    if job.error:
        first, *rest = job.error.splitlines()
        yield "error", "\n".join([first, *(f"{'':12}{line}" for line in rest)])


def _relations(job: JobRecord) -> Iterator[tuple[str, str]]:
    """Its labels, the jobs it comes after, and its place in the queue."""
    if job.labels:
        yield "labels", ", ".join(f"{key}={value}" for key, value in job.labels.items())
    if job.after:
        yield "after", ", ".join(_parent(each) for each in job.after)
    if job.position is not None:
        yield "queue", f"{job.position} in pool {job.pool}"


def _parent(parent: ParentRecord) -> str:
    how = "" if parent.when == "ok" else f":{parent.when}"
    return f"{parent.number} ({parent.name}){how}{', met' if parent.met else ''}"


def _batch(job: JobRecord) -> str:
    """`512 samples of 128..2048, noise 1900 samples, efficiency 0.84`."""
    parts = [f"{job.batch} samples of {job.batch_limits}"]
    if job.noise is not None:
        parts.append(f"noise {job.noise:.3g} samples")
    if job.efficiency is not None:
        parts.append(f"efficiency {job.efficiency:.2f}")
    return ", ".join(parts)


def _folder(program: ProgramRecord) -> str:
    if not program.ship:
        return program.folder or "a folder of its own"
    inside = f"{program.folder} of " if program.folder else ""
    return f"{inside}a shipped folder, {program.ship[:19]}"


def _program(program: ProgramRecord, command: Sequence[str]) -> Iterator[tuple[str, str]]:
    if program.executable and program.executable not in command[:1]:
        yield "program", program.executable
    yield "folder", _folder(program)
    if program.checkpoint:
        yield "saves to", program.checkpoint
    for name, variables in (("env", program.env), ("inherits", program.inherited)):
        if variables:
            lines = (f"{each}={text}" for each, text in sorted(variables.items()))
            yield name, f"\n{'':12}".join(lines)


def _has(job: JobRecord) -> str:
    if not job.nodes:
        return "nothing"
    servers = f" and {counted(job.servers, 'server')}" if job.servers else ""
    where = ", ".join(job.nodes)
    return (
        f"{counted(job.workers, 'worker')}{servers} with {counted(job.devices, 'device')} "
        f"on {where}, generation {job.generation}"
    )


def _plan(plan: PlanRecord) -> str:
    """The plan in force and its runner-up, with what was measured below."""
    if plan.measured is None:
        return plan.text
    off = f"{plan.measured / plan.predicted - 1:+.0%} of the prediction"
    return f"{plan.text}\n{'':12}measured {short(plan.measured)} a step, {off}"


def _progress(job: JobRecord) -> str:
    if job.step is None:
        return "unknown"
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
        if job.predicted_start is None:
            return ""
        text = ", expected to start " + when(max(job.predicted_start, now + 1), now)
        if job.start_low is None or job.start_high is None:
            return text
        return f"{text} ({_ends(job.start_low, job.start_high, now)})"
    return f", waited {clock(job.started - job.submitted)}"


def _finish(job: JobRecord, now: float) -> str:
    if job.ended is not None and job.status in OVER:
        text = f"{moment(job.ended)}, after {clock(job.ended - job.submitted)}"
        first, error = job.first_predicted_finish, first_error(job)
        if first is not None and error is not None:
            text += f"; first predicted after {clock(first - job.submitted)} ({error:+.0%})"
        return text
    expected = job.predicted_finish
    if expected is None:
        least = (
            "" if job.finish_low is None else f", {when(max(job.finish_low, now + 1), now)} or later"
        )
        return f"unknown{least}{_rests(job)}"
    return f"expected {moment(expected)}, {finish(job, now)}{_span(job, now)}{_rests(job)}"


def _rests(job: JobRecord) -> str:
    """What the forecast rests on, and how probable it is that the job is preempted first."""
    rests = "" if not job.rests_on else f"; rests on {counted(job.rests_on, 'similar job')}"
    odds = f"; preempted first in {job.preemption:.0%} of the futures" if job.preemption else ""
    return rests + odds


def _ends(low: float, high: float, now: float) -> str:
    return f"{when(max(low, now + 1), now)} to {when(max(high, now + 1), now)}, 80% interval"


def _span(job: JobRecord, now: float) -> str:
    """The 80 % interval of the finish, where it is wide enough to be worth a line."""
    low, high, expected = job.finish_low, job.finish_high, job.predicted_finish
    if low is None or high is None or expected is None or high - low < WORTH * (expected - now):
        return ""
    return f" ({when(max(low, now), now)} to {when(high, now)}, 80% interval)"


def _ends_after(job: JobRecord) -> str:
    if job.epochs is None:
        return ""
    mean, low, high = job.epochs
    return f": after about {mean:.0f} epochs ({low:.0f} to {high:.0f}, 80% interval)"


def first_error(job: JobRecord) -> float | None:
    """Return the first predicted finish minus the real one, relative to the job's whole time."""
    if job.ended is None or job.first_predicted_finish is None:
        return None
    return prediction_error(job.first_predicted_finish, job.ended, job.submitted)


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
        return signal_name(task.signal)
    return "-" if task.code is None else f"exit code {task.code}"


def signal_name(number: int) -> str:
    """`signal 9 (SIGKILL)`, as events have it."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _changes(changes: Sequence[ChangeRecord]) -> str:
    if not changes:
        return ""
    rows = [(moment(change.at), change.kind, change.text) for change in changes]
    return table(("AT", "EVENT", "DETAIL"), rows, left=(0, 1, 2))


def _some(predictions: Sequence[PredictionRecord], every: bool) -> Sequence[PredictionRecord]:
    """All of them, or a few evenly spread."""
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
    """Fill in the real finish once the job has ended."""
    real = job.ended
    if prediction.what != "finish" or prediction.real is not None or real is None:
        return prediction
    error = prediction_error(prediction.predicted, real, prediction.at)
    return replace(prediction, real=real, error=error)


def _predicted(prediction: PredictionRecord, value: float) -> str:
    """A step's time; a finish as the time from the prediction to it."""
    if prediction.what == "step":
        return f"{value * 1000:,.0f} ms"
    return clock(max(0.0, value - prediction.at))
