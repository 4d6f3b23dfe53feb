"""What the lists say of live jobs: kept beside the view, written with the facts that change it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from muster.core.why.words import tell
from muster.daemon.gang.state import GangState
from muster.daemon.learn import Progress
from muster.model.event import (
    Cancelled,
    Ended,
    Outcome,
    Preempted,
    Resized,
    StartBegun,
    Submitted,
)
from muster.model.job import Job, Role
from muster.model.reason import Reason
from muster.model.task import Fact, StopAsked, job_of
from muster.model.view import JobState, Phase
from muster.wire.records import JobRecord, PredictionRecord


@dataclass(frozen=True, slots=True)
class Card:
    """What the lists say of a live job beyond its state in the view and its gang."""

    started: float | None = None
    stopping: bool = False
    reason: Reason | None = None
    code: str = ""
    text: str = ""
    predicted_start: float | None = None
    predicted_finish: float | None = None
    first_prediction: PredictionRecord | None = None
    """Of its finish; what is held against the outcome."""
    last_prediction: PredictionRecord | None = None
    """Of its finish, as stored."""
    resizes: int = 0
    preemptions: int = 0
    error: str | None = None
    exit_code: int | None = None
    outcome: str = ""
    ended: float | None = None

    def explain(self, reason: Reason) -> "Card":
        """Return the card with this reason for how the job is."""
        if reason == self.reason:
            return self
        return replace(self, reason=reason, code=reason.code.value, text=tell(reason))


def card_of(record: JobRecord, predictions: Sequence[PredictionRecord]) -> Card:
    """Return the card that an earlier daemon had of a live job."""
    finishes = [each for each in predictions if each.what == "finish"]
    return Card(
        started=record.started,
        stopping=record.status == "stopping",
        code=record.code,
        text=record.reason,
        predicted_start=record.predicted_start,
        predicted_finish=record.predicted_finish,
        first_prediction=finishes[0] if finishes else None,
        last_prediction=finishes[-1] if finishes else None,
        resizes=record.resizes,
        preemptions=record.preemptions,
    )


def fold_cards(cards: Mapping[int, Card], facts: Iterable[Fact]) -> dict[int, Card]:
    """Return the cards that these facts change, as they are then."""
    changed: dict[int, Card] = {}
    for fact in facts:
        if isinstance(fact, Submitted):
            changed[fact.job.number] = Card()
            continue
        number = job_of(fact)
        if number is not None and (card := changed.get(number) or cards.get(number)) is not None:
            changed[number] = _after(card, fact)
    return changed


def _after(card: Card, fact: Fact) -> Card:
    match fact:
        case StartBegun() if card.started is None:
            card = replace(card, started=fact.at)
        case Resized():
            card = replace(card, resizes=card.resizes + 1)
        case Preempted():
            card = replace(card, preemptions=card.preemptions + 1)
        case StopAsked():
            card = replace(card, stopping=True)
        case Cancelled():
            card = replace(card, ended=fact.at, outcome="cancelled", code="")
            card = replace(card, text="stopped by its user")
        case Ended():
            error = fact.error if fact.outcome is Outcome.FAILED else None
            outcome, code = fact.outcome.value, fact.exit_code
            card = replace(card, ended=fact.at, outcome=outcome, code="", text="")
            card = replace(card, error=error, exit_code=code)
    return card


def status_of(card: Card, phase: Phase) -> str:
    """Return one word for how a job is."""
    if card.outcome:
        return card.outcome
    return "stopping" if card.stopping and phase is not Phase.WAITING else phase.value


def record_of(
    card: Card, state: JobState, gang: GangState | None, progress: Progress | None
) -> JobRecord:
    """Return the record of a live job, or of one that has just ended, in its last state."""
    job, over = state.job, bool(card.outcome)
    placed = None if over else state.placement
    return JobRecord(
        number=job.number,
        name=job.name,
        user=job.user,
        pool=job.pool,
        status=status_of(card, state.phase),
        priority=job.priority,
        command=job.command,
        asked=asked(job),
        workers=placed.count(Role.WORKER) if placed else 0,
        servers=placed.count(Role.SERVER) if placed else 0,
        devices=placed.devices if placed else 0,
        nodes=tuple(sorted(placed.nodes())) if placed else (),
        generation=state.generation,
        submitted=state.submitted,
        started=card.started,
        ended=card.ended,
        step=progress.step if progress else None,
        steps=progress.steps if progress else None,
        epoch=progress.epoch if progress else None,
        loss=progress.loss if progress else None,
        rate=progress.rate if progress and placed else None,
        code=card.code,
        reason=card.text,
        predicted_start=card.predicted_start,
        predicted_finish=None if over else card.predicted_finish,
        first_predicted_finish=card.first_prediction.predicted if card.first_prediction else None,
        resizes=card.resizes,
        preemptions=card.preemptions,
        failures=gang.failures if gang else 0,
        losses=gang.losses if gang else 0,
        pause=progress.pause if progress else 0.0,
        live=gang.live if gang else False,
        error=card.error,
        exit_code=card.exit_code,
    )


def asked(job: Job) -> str:
    """The tasks a job asks for: `4`, `1..8`, `1..8+2`."""
    words = []
    for spec in job.roles:
        words.append(f"{spec.least}" if spec.least == spec.most else f"{spec.least}..{spec.most}")
    return "+".join(words)
