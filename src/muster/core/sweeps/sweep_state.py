"""A live sweep as a value, folded from facts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from muster.model.event import Cancelled, Ended
from muster.model.sweep import (
    MemberPromoted,
    MemberSubmitted,
    RungReached,
    Sweep,
    SweepDependencyMet,
    SweepEnded,
    SweepFact,
    SweepResized,
    SweepSkipped,
    SweepStopped,
    SweepSubmitted,
)
from muster.model.task import Fact, StopAsked

PRUNED = "pruned"
"""How a member ends that its sweep has stopped."""


@dataclass(frozen=True, slots=True)
class RungState:
    """Who has reached a rung."""

    values: Mapping[int, float | None] = field(default_factory=dict)
    """The metric of each member, by position."""
    promoted: frozenset[int] = frozenset()
    """Those that went on."""


@dataclass(frozen=True, slots=True)
class SweepState:
    """A sweep, and what has become of its members, each by its position."""

    sweep: Sweep
    submitted: float
    at_most: int
    """As last set; 0: any number."""
    entered: int = 0
    """Members that have entered the queue: they do in order."""
    over: Mapping[int, str] = field(default_factory=dict)
    """How members have ended."""
    rungs: tuple[RungState, ...] = ()
    losers: frozenset[int] = frozenset()
    """Those that the sweep has stopped for good, also while they are still stopping."""
    stopped: str = ""
    """Who has stopped it; empty: nobody."""
    skipped: str = ""
    """Why none of its members will run; empty: they will."""

    def rung(self, number: int) -> RungState:
        """Return a rung, which nobody may have reached yet."""
        return self.rungs[number] if number < len(self.rungs) else RungState()

    def next_rung(self, position: int) -> int:
        """Return the first rung that a member has not reached."""
        reached = (place for place, rung in enumerate(self.rungs) if position in rung.values)
        return max(reached, default=-1) + 1

    def is_paused(self, position: int) -> bool:
        """Whether a member may not go on beyond the last rung it has reached."""
        last = self.next_rung(position) - 1
        return last >= 0 and position not in self.rungs[last].promoted

    @property
    def to_come(self) -> int:
        """Members that have not entered the queue, and will."""
        return 0 if self.stopped or self.skipped else self.sweep.size - self.entered

    @property
    def outcome(self) -> str:
        """How it has ended, for those after it."""
        if self.skipped:
            return "skipped"
        return "cancelled" if self.stopped else outcome_of(self.over.values())


def outcome_of(members: Iterable[str]) -> str:
    """Return how a sweep has ended whose members ended so; one that is pruned did what it should."""
    ends = set(members) - {PRUNED}
    if ends == {"succeeded"}:
        return "succeeded"
    return "failed" if "failed" in ends else "cancelled"


SweepStates = Mapping[int, SweepState]
"""Live sweeps by number."""


def sweep_of(sweeps: SweepStates, job: int) -> tuple[SweepState, int] | None:
    """Return the sweep that a job is a member of, and its position there; None: of none."""
    for state in sweeps.values():
        place = state.sweep.place_of(job)
        if place is not None:
            return state, place
    return None


def fold_sweep(sweeps: SweepStates, fact: Fact) -> SweepStates:
    """Return the live sweeps after a fact; the same object if it is not about them."""
    match fact:
        case SweepSubmitted():
            new = SweepState(fact.sweep, fact.at, fact.sweep.at_most)
            return {**sweeps, fact.sweep.number: new}
        case SweepEnded():
            return {number: each for number, each in sweeps.items() if number != fact.sweep}
        case Ended() | Cancelled() | StopAsked():
            return _after_end(sweeps, fact) if sweeps else sweeps
        case _ if isinstance(fact, SweepFact) and fact.sweep in sweeps:
            return {**sweeps, fact.sweep: _after(sweeps[fact.sweep], fact)}
    return sweeps


def _after_end(sweeps: SweepStates, fact: Ended | Cancelled | StopAsked) -> SweepStates:
    """Note how a member ends, or that its sweep stops it."""
    found = sweep_of(sweeps, fact.job)
    if found is None or (isinstance(fact, StopAsked) and not fact.why):
        return sweeps
    state, place = found
    if isinstance(fact, StopAsked):
        state = replace(state, losers=state.losers | {place})
    elif isinstance(fact, Cancelled):
        how = PRUNED if place in state.losers else "cancelled"
        state = replace(state, over={**state.over, place: how})
    else:
        state = replace(state, over={**state.over, place: fact.outcome.value})
    return {**sweeps, state.sweep.number: state}


def _after(state: SweepState, fact: SweepFact) -> SweepState:  # noqa: PLR0911 (one for each kind)
    match fact:
        case MemberSubmitted():
            place = fact.job - state.sweep.number - 1
            return replace(state, entered=max(state.entered, place + 1))
        case RungReached():
            place, rung = fact.job - state.sweep.number - 1, state.rung(fact.rung)
            values = {**rung.values, place: fact.value}
            return _with_rung(state, fact.rung, replace(rung, values=values))
        case MemberPromoted():
            place, rung = fact.job - state.sweep.number - 1, state.rung(fact.rung)
            return _with_rung(state, fact.rung, replace(rung, promoted=rung.promoted | {place}))
        case SweepResized():
            return replace(state, at_most=fact.at_most)
        case SweepStopped():
            return replace(state, stopped=fact.by)
        case SweepDependencyMet():
            return replace(state, sweep=_met(state.sweep, fact.parent))
        case SweepSkipped():
            return replace(state, skipped=fact.why)
    return state


def _met(sweep: Sweep, parent: int) -> Sweep:
    after = (replace(each, met=each.met or each.number == parent) for each in sweep.template.after)
    return replace(sweep, template=replace(sweep.template, after=tuple(after)))


def _with_rung(state: SweepState, number: int, rung: RungState) -> SweepState:
    missing = (RungState(),) * (number + 1 - len(state.rungs))
    rungs = [*state.rungs, *missing]
    rungs[number] = rung
    return replace(state, rungs=tuple(rungs))
