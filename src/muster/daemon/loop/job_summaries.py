"""What the lists say of live jobs: kept beside the view, written with the facts that change it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from muster.core.why.words import tell
from muster.daemon.gang.gang import Gang
from muster.daemon.learn import Progress
from muster.model.event import (
    Cancelled,
    Ended,
    Outcome,
    Preempted,
    Reshaped,
    Resized,
    StartBegun,
    Submitted,
)
from muster.model.job import Job, Role
from muster.model.reason import Reason
from muster.model.task import Fact, StopAsked, TaskEnded, job_of
from muster.model.view import JobState, Phase, View
from muster.wire.records import JobRecord


@dataclass(slots=True)
class Card:
    """What is known of a live job beyond its state in the view."""

    job: Job
    submitted: float
    started: float | None = None
    stopping: bool = False
    reason: Reason | None = None
    code: str = ""
    text: str = ""
    predicted_start: float | None = None
    predicted_finish: float | None = None
    first_predicted_finish: float | None = None
    resizes: int = 0
    preemptions: int = 0
    failures: int = 0
    losses: int = 0
    error: str | None = None
    exit_code: int | None = None
    outcome: str = ""
    ended: float | None = None

    def explain(self, reason: Reason) -> bool:
        """Say why it is as it is; True if that is news."""
        if reason == self.reason:
            return False
        self.reason, self.code, self.text = reason, reason.code.value, tell(reason)
        return True


def card_of(record: JobRecord, job: Job) -> Card:
    """The card that an earlier daemon had of a live job."""
    return Card(
        job=job,
        submitted=record.submitted,
        started=record.started,
        stopping=record.status == "stopping",
        code=record.code,
        text=record.reason,
        predicted_start=record.predicted_start,
        predicted_finish=record.predicted_finish,
        first_predicted_finish=record.first_predicted_finish,
        resizes=record.resizes,
        preemptions=record.preemptions,
        failures=record.failures,
        losses=record.losses,
    )


class Cards:
    """The cards of all live jobs, by number."""

    def __init__(self) -> None:
        self.of: dict[int, Card] = {}

    def note(self, fact: Fact, gangs: Mapping[int, Gang]) -> None:
        """Take a fact in."""
        if isinstance(fact, Submitted):
            self.of[fact.job.number] = Card(fact.job, fact.at)
            return
        number = job_of(fact)
        card = self.of.get(number) if number is not None else None
        if card is not None:
            self._count(card, fact)
            if isinstance(fact, Ended | Cancelled):
                self._close(card, fact, gangs.get(card.job.number))

    def _count(self, card: Card, fact: Fact) -> None:
        if isinstance(fact, StartBegun):
            card.started = card.started if card.started is not None else fact.at
        elif isinstance(fact, Resized):
            card.resizes += 1
        elif isinstance(fact, Preempted):
            card.preemptions += 1
        elif isinstance(fact, Reshaped):
            card.job = replace(card.job, roles=fact.roles)
        elif isinstance(fact, StopAsked):
            card.stopping = True
        elif isinstance(fact, TaskEnded):
            card.failures += fact.fault
            card.losses += fact.lost

    def _close(self, card: Card, fact: Ended | Cancelled, gang: Gang | None) -> None:
        card.ended = fact.at
        if isinstance(fact, Cancelled):
            card.outcome = "cancelled"
            card.code, card.text = "", "its user stopped it"
            return
        succeeded = fact.outcome is Outcome.SUCCEEDED
        card.outcome, card.code, card.text = fact.outcome.value, "", ""
        if gang is not None:
            card.exit_code = gang.exit_code
            card.error = None if succeeded else gang.error or "its tasks failed"


def status_of(card: Card, state: JobState | None) -> str:
    """One word for how a job is."""
    if state is None:
        return card.outcome
    if card.stopping and state.phase is not Phase.WAITING:
        return "stopping"
    return state.phase.value


def record_of(card: Card, view: View, gang: Gang | None, progress: Progress | None) -> JobRecord:
    """The record of a live job, or of one that has just ended."""
    state = view.jobs.get(card.job.number)
    job = state.job if state is not None else card.job
    placed = state.placement if state is not None else None
    return JobRecord(
        number=job.number,
        name=job.name,
        user=job.user,
        pool=job.pool,
        status=status_of(card, state),
        priority=job.priority,
        command=job.command,
        asked=asked(job),
        workers=placed.count(Role.WORKER) if placed else 0,
        servers=placed.count(Role.SERVER) if placed else 0,
        devices=placed.devices if placed else 0,
        nodes=tuple(sorted(placed.nodes())) if placed else (),
        generation=state.generation if state is not None else (gang.generation if gang else 0),
        submitted=card.submitted,
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
        predicted_finish=card.predicted_finish if card.ended is None else None,
        first_predicted_finish=card.first_predicted_finish,
        resizes=card.resizes,
        preemptions=card.preemptions,
        failures=card.failures,
        losses=card.losses,
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
