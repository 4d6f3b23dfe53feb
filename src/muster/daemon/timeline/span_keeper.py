"""Follows who holds which devices: each time in which that does not change is a span."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from muster.daemon.loop.fold import Turn
from muster.daemon.loop.job_summaries import is_restarting
from muster.daemon.loop.state import State
from muster.daemon.service.reading.event_text import text_of
from muster.model.event import Checkpointed, NodeLost
from muster.model.job import Role
from muster.model.placement import Placement, Slot
from muster.model.task import Decided, Fact, RuntimeSeen, TaskEnded, TaskOrdered, job_of
from muster.model.topology import each_bit
from muster.model.view import JobState
from muster.store.batch import Span

_DETAILS = (TaskOrdered, TaskEnded, RuntimeSeen, Checkpointed)
"""Facts of a change that do not say why it came."""
_LEAD_ON = ("starting", "resizing", "migrating")
"""Statuses whose reason is also that of the next: what was decided takes its course."""


class SpanKeeper:
    """The spans that have not ended."""

    def __init__(self) -> None:
        self._open: dict[int, Span] = {}
        self._missed: list[Span] = []
        """What changed while there was no daemon, until it is written."""

    def restore(self, unended: Iterable[Span], state: State, now: float) -> None:
        """Go on from what the last daemon wrote."""
        jobs = state.view.jobs
        for span in unended:
            if span.number in jobs and jobs[span.number].held():
                self._open[span.number] = span
            else:
                self._missed.append(replace(span, ended=now))
        for number, job in jobs.items():
            if job.held() and number not in self._open:
                self._open[number] = _span(state, job, job.since or now)
                self._missed.append(self._open[number])

    def changes(self, turn: Turn) -> tuple[Span, ...]:
        """Return the spans that end and begin with a turn."""
        about: dict[int, list[Fact]] = {}
        for fact in turn.facts:
            if isinstance(fact, NodeLost):
                for number in self._open:
                    about.setdefault(number, []).append(fact)
            elif self._concerns(number := job_of(fact) or 0, turn.state):
                about.setdefault(number, []).append(fact)
        changed = (self._changed(turn.state, number, facts) for number, facts in about.items())
        return (*self._missed, *(span for spans in changed for span in spans))

    def adopt(self, spans: Iterable[Span]) -> None:
        """Take over spans that were written."""
        self._missed.clear()
        for span in spans:
            if span.ended is None:
                self._open[span.number] = span
            else:
                self._open.pop(span.number, None)

    def _concerns(self, number: int, state: State) -> bool:
        """Whether a job holds devices, or did before: most facts are submissions."""
        job = state.view.jobs.get(number)
        return number in self._open or (job is not None and job.placement is not None)

    def _changed(self, state: State, number: int, facts: Sequence[Fact]) -> Iterator[Span]:
        """Yield the end of a job's span and the beginning of its next, if it holds others now."""
        job, known, at = state.view.jobs.get(number), self._open.get(number), facts[-1].at
        new = _span(state, job, at) if job is not None and job.placement is not None else None
        if known is not None:
            if new is not None and _alike(known, new):
                return
            yield replace(known, ended=max(at, known.began))
        if new is not None:
            code, reason = _why(known, facts)
            yield replace(new, code=code, reason=reason)


def _span(state: State, job: JobState, began: float) -> Span:
    restarts = is_restarting(job.phase, state.gangs.get(job.number))
    tasks = Placement(job.held())
    return Span(
        job.number,
        began,
        "restarting" if restarts else job.phase.value,
        _devices(tasks.slots),
        (job.placement or tasks).count(Role.WORKER),
        (job.placement or tasks).count(Role.SERVER),
    )


def _devices(slots: Iterable[Slot]) -> dict[str, tuple[int, ...]]:
    bits: dict[str, int] = {}
    for slot in slots:
        bits[slot.node] = bits.get(slot.node, 0) | slot.bits
    return {node: tuple(each_bit(held)) for node, held in sorted(bits.items())}


def _alike(one: Span, other: Span) -> bool:
    return (one.status, one.devices, one.workers, one.servers) == (
        other.status,
        other.devices,
        other.workers,
        other.servers,
    )


def _why(known: Span | None, facts: Sequence[Fact]) -> tuple[str, str]:
    """Return why a job holds what it holds now: what was decided, else what happened."""
    for fact in facts:
        if isinstance(fact, Decided):
            return fact.code, fact.text
    if known is not None and known.status in _LEAD_ON:
        return known.code, known.reason
    told = [fact for fact in facts if not isinstance(fact, _DETAILS)]
    return "", text_of((told or facts)[0])
