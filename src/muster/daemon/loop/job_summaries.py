"""Summaries of live jobs for lists: kept beside the view, written with the facts that change them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from muster.core.sweeps.sweep_state import PRUNED
from muster.core.why.words import NameOf, tell
from muster.daemon.gang.exits import headline
from muster.daemon.gang.state import GangState
from muster.daemon.gang.transitions import Goal
from muster.daemon.learn import Progress
from muster.daemon.learn.convergence import LossEnding
from muster.daemon.loop.dependents import awaited_words
from muster.daemon.loop.foretold import foretold
from muster.foresight.play import JobForecast
from muster.model.decision import Kind
from muster.model.event import (
    Cancelled,
    Ended,
    JobHeld,
    Outcome,
    Preempted,
    Requeued,
    Resized,
    Skipped,
    StartBegun,
    Submitted,
)
from muster.model.job import Job, Role, RoleSpec
from muster.model.reason import Code, Reason
from muster.model.sweep import HELD, MemberSubmitted, RungReached
from muster.model.task import ConvergenceSeen, Decided, Fact, StopAsked, job_of
from muster.model.view import JobState, Phase
from muster.wire.api.job_relations import ParentRecord
from muster.wire.api.records import JobRecord, PredictionRecord


@dataclass(frozen=True, slots=True)
class JobSummary:
    """What lists show of a live job beyond its state in the view and its gang."""

    started: float | None = None
    stopping: bool = False
    reason: Reason | None = None
    code: str = ""
    text: str = ""
    predicted_start: float | None = None
    predicted_finish: float | None = None
    first_prediction: PredictionRecord | None = None
    """Of its finish: compared with the real one when the job ends."""
    last_prediction: PredictionRecord | None = None
    """Of its finish, as stored last."""
    resizes: int = 0
    preemptions: int = 0
    error: str | None = None
    exit_code: int | None = None
    outcome: str = ""
    ended: float | None = None
    finish_span: tuple[float, float] | None = None
    """The 80 % interval of the predicted finish."""
    ending: LossEnding | None = None
    """What its losses say of its end."""
    converged: str = ""
    """That its loss has stopped falling, once that was seen."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """As its script has last reported them."""
    epochs: int | None = None
    """Epochs done, by these reports."""
    paused: str = ""
    """Why its sweep holds it."""
    pruned: str = ""
    """Why its sweep has stopped it for good."""
    rung: int = 0
    """The highest rung of its sweep that it has reached; 0: none."""

    def explain(self, reason: Reason, name_of: NameOf) -> "JobSummary":
        """Return the summary with this reason for the job's state; `name_of`: for its user's eyes."""
        if reason == self.reason:
            return self
        return replace(self, reason=reason, code=reason.code.value, text=tell(reason, name_of))


def explain_barred(
    barred: Mapping[int, str], summaries: Mapping[int, JobSummary], now: float
) -> tuple[list[Fact], dict[int, JobSummary]]:
    """Return the summaries of jobs without a budget, and facts of those that had one before."""
    code, facts, changed = Code.WAITING_BUDGET, list[Fact](), dict[int, JobSummary]()
    for number, text in barred.items():
        before = summaries.get(number)
        if before is not None and (before.code, before.text) != (code, text):
            changed[number] = replace(before, reason=None, code=code.value, text=text)
            if before.code != code:
                facts.append(Decided(number, Kind.WAIT, code, text, now))
    return facts, changed


_BY_STATE = (
    Code.WAITING_HELD,
    Code.WAITING_AFTER,
    Code.RESTARTING,
    Code.WAITING_RUNG,
    Code.STOPPING_RUNG,
)
"""Reasons that follow from a job's state."""


def restored_summary(record: JobRecord, predictions: Sequence[PredictionRecord]) -> JobSummary:
    """Return the summary that the previous daemon had of a live job."""
    finishes = [each for each in predictions if each.what == "finish"]
    told = record.code not in _BY_STATE
    return JobSummary(
        started=record.started,
        stopping=record.status == "stopping",
        code=record.code if told else "",
        text=record.reason if told else "",
        predicted_start=record.predicted_start,
        predicted_finish=record.predicted_finish,
        first_prediction=finishes[0] if finishes else None,
        last_prediction=finishes[-1] if finishes else None,
        resizes=record.resizes,
        preemptions=record.preemptions,
        converged=record.converged,
        metrics=record.metrics,
        epochs=record.epoch if record.metrics else None,
        paused=record.reason if record.code == Code.WAITING_RUNG else "",
        pruned=record.reason if record.code == Code.STOPPING_RUNG else "",
        rung=record.rung,
    )


def fold_summaries(summaries: Mapping[int, JobSummary], facts: Iterable[Fact]) -> dict[int, JobSummary]:
    """Return the summaries that these facts change, after them."""
    changed: dict[int, JobSummary] = {}
    for fact in facts:
        if isinstance(fact, Submitted | MemberSubmitted):
            changed[job_of(fact) or 0] = JobSummary()
            continue
        number = job_of(fact)
        if number is not None and (summary := changed.get(number) or summaries.get(number)) is not None:
            changed[number] = _after(summary, fact)
    return changed


def _after(summary: JobSummary, fact: Fact) -> JobSummary:
    match fact:
        case StartBegun() if summary.started is None:
            summary = replace(summary, started=fact.at)
        case Resized():
            summary = replace(summary, resizes=summary.resizes + 1)
        case Preempted():
            summary = replace(summary, preemptions=summary.preemptions + 1)
        case Requeued() if fact.not_before > fact.at:
            code = Code.WAITING_RESTART.value
            summary = replace(summary, reason=None, code=code, text="")
        case ConvergenceSeen():
            summary = replace(summary, converged=fact.text)
        case RungReached():
            summary = replace(summary, rung=fact.rung + 1)
        case JobHeld():
            summary = replace(summary, paused=fact.why)
        case StopAsked():
            summary = replace(summary, stopping=True, pruned=summary.pruned or fact.why)
        case Cancelled():
            outcome = PRUNED if summary.pruned else "cancelled"
            text = summary.pruned or "stopped by its user"
            summary = replace(summary, ended=fact.at, outcome=outcome, code="", text=text)
        case Skipped():
            code = Code.SKIPPED.value
            summary = replace(summary, ended=fact.at, outcome="skipped", code=code, text=fact.why)
        case Ended(outcome=outcome):
            error = fact.error if outcome is Outcome.FAILED else None
            summary = replace(summary, ended=fact.at, outcome=outcome.value, code="", text="")
            summary = replace(summary, error=error, exit_code=fact.exit_code)
    return summary


def status_of(summary: JobSummary, phase: Phase, gang: GangState | None = None) -> str:
    """Return the status that users see."""
    if summary.outcome:
        return summary.outcome
    if summary.stopping and phase is not Phase.WAITING:
        return "stopping"
    return "restarting" if is_restarting(phase, gang) else phase.value


def is_restarting(phase: Phase, gang: GangState | None) -> bool:
    """Whether a job waits on its devices to restart after a loss."""
    if gang is None or phase not in (Phase.STARTING, Phase.RUNNING):
        return False
    return gang.goal is Goal.RESTART or (gang.goal is Goal.RUN and gang.live and not gang.tasks)


def why(summary: JobSummary, state: JobState, gang: GangState | None) -> tuple[str, str]:
    """Return why a job is in its state: a code, and text."""
    if summary.pruned or (state.held_by and state.phase is Phase.WAITING):
        return _why_held(summary, state.held_by)
    if awaited := state.awaited:
        return Code.WAITING_AFTER.value, awaited_words(awaited)
    if is_restarting(state.phase, gang):
        return Code.RESTARTING.value, _restart_text(gang)
    if summary.code == Code.WAITING_RESTART and not summary.text:
        return summary.code, _restart_text(gang)
    if summary.converged and state.phase is Phase.RUNNING:
        return Code.CONVERGED.value, summary.converged
    return summary.code, summary.text


def _why_held(summary: JobSummary, by: str) -> tuple[str, str]:
    if summary.pruned:
        return Code.STOPPING_RUNG.value, summary.pruned
    if by == HELD:
        return Code.WAITING_RUNG.value, summary.paused
    return Code.WAITING_HELD.value, f"held by {by}; continue with: muster release"


def _restart_text(gang: GangState | None) -> str:
    """Return how often it was set back, by what, and how long it waits."""
    if gang is None:
        return ""
    count = gang.setbacks.count
    row = f"{count} losses in a row" if count > 1 else "a loss"
    return f"restarts {gang.setbacks.delay:g} s after {row}: {headline(gang.error)}"


def record_of(
    summary: JobSummary,
    state: JobState,
    gang: GangState | None,
    progress: Progress | None,
    forecast: JobForecast | None = None,
) -> JobRecord:
    """Return the list entry of a live job, or of one that has just ended, in its last state."""
    job, over = state.job, bool(summary.outcome)
    placed = None if over else state.placement
    code, text = (summary.code, summary.text) if over else why(summary, state, gang)
    return JobRecord(
        number=job.number,
        name=job.name,
        user=job.user,
        pool=job.pool,
        status=status_of(summary, state.phase, gang),
        priority=job.priority,
        command=job.command,
        asked=asked(job),
        workers=placed.count(Role.WORKER) if placed else 0,
        servers=placed.count(Role.SERVER) if placed else 0,
        devices=placed.devices if placed else 0,
        nodes=tuple(sorted(placed.nodes())) if placed else (),
        generation=state.generation,
        submitted=state.submitted,
        started=summary.started,
        ended=summary.ended,
        step=progress.step if progress else None,
        steps=progress.steps if progress else None,
        epoch=progress.epoch if progress else summary.epochs,
        loss=progress.loss if progress else summary.metrics.get("loss"),
        rate=progress.rate if progress and placed else None,
        batch=progress.batch if progress else None,
        batch_limits=progress.batch_limits if progress else None,
        noise=progress.noise if progress else None,
        efficiency=progress.efficiency if progress else None,
        code=code,
        reason=text,
        first_predicted_finish=summary.first_prediction.predicted if summary.first_prediction else None,
        resizes=summary.resizes,
        preemptions=summary.preemptions,
        failures=gang.failures if gang else 0,
        losses=gang.losses if gang else 0,
        pause=progress.pause if progress else 0.0,
        live=gang.live if gang else False,
        error=summary.error,
        exit_code=summary.exit_code,
        slowed=progress.slowed if progress and progress.beside and placed else None,
        beside=progress.beside if progress and progress.beside and placed else None,
        converged=summary.converged,
        labels=dict(job.labels),
        interactive=job.program.interactive is not None,
        after=tuple(ParentRecord(each.number, each.job, each.when, each.met) for each in job.after),
        **_by_loss(summary.ending, job.program.until, over=over),
        metrics=dict(summary.metrics),
        sweep=job.sweep.sweep if job.sweep else None,
        params=dict(job.sweep.params) if job.sweep else {},
        rung=summary.rung,
        time_limit=job.program.time,
        **_expected(summary, forecast, over=over),
    )


def _expected(summary: JobSummary, forecast: JobForecast | None, *, over: bool) -> Mapping[str, Any]:
    """Return when it starts and ends: as played, or else as its progress says."""
    if over:
        return {"predicted_start": summary.predicted_start}
    if forecast is not None:
        return foretold(forecast)
    low, high = summary.finish_span or (None, None)
    return {
        "predicted_start": summary.predicted_start,
        "predicted_finish": summary.predicted_finish,
        "finish_low": low,
        "finish_high": high,
    }


def _by_loss(ending: LossEnding | None, given: str, *, over: bool) -> dict[str, Any]:
    """Return what its losses say; `given`: the end it was submitted with."""
    if ending is None:
        return {"until": given}
    total = None if over else ending.epochs
    return {
        "until": ending.until,
        "epochs": total and (total.mean, total.low, total.high),
        "noticed": "" if over else "; ".join((*ending.notes, ending.unknown)).strip("; "),
    }


def asked(job: Job) -> str:
    """Return how many tasks a job asks for: `4`, `1..8`, `1..8+2`."""
    return asked_of(job.roles)


def asked_of(roles: Sequence[RoleSpec]) -> str:
    """Return how many tasks these roles ask for."""
    spans = ((spec.least, spec.most) for spec in roles)
    return "+".join(f"{least}" if least == most else f"{least}..{most}" for least, most in spans)
