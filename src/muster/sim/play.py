"""Play jobs on a cluster: the real cycle, checked, on a virtual clock, until everything is done."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.core.begin import begun
from muster.core.check import check
from muster.core.cycle import Decisions, Memory, decide
from muster.core.desk import Rules
from muster.core.evolve import evolve
from muster.model.decision import Kind
from muster.model.event import Event, Submitted
from muster.model.job import Job
from muster.model.view import Phase, View
from muster.policy.base import Policy
from muster.sim.executor import VirtualClock, VirtualExecutor

INTERVAL = 60.0
"""s between cycles while something waits and nothing else happens: Peloton's period."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One cycle: when, on what, what was decided, and what it led to."""

    now: float
    before: View
    decided: Decisions
    after: View


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job and when it is submitted, in s."""

    at: float
    job: Job


def play(
    view: View, arrivals: Iterable[Arrival], policy: Policy, rules: Rules | None = None
) -> Iterator[Frame]:
    """Yield a frame for each cycle until no job is left, or none of those left can ever move."""
    clock = VirtualClock()
    executor = VirtualExecutor(clock)
    coming = sorted(arrivals, key=lambda arrival: arrival.at)
    memory = Memory()
    while True:
        events: list[Event] = list(executor.collect())
        while coming and coming[0].at <= clock.now():
            events.append(Submitted(coming[0].job, coming.pop(0).at))
        view = evolve(view, events)
        decided = decide(policy, view, clock.now(), memory, rules)
        check(view, decided)
        memory = decided.memory
        after = evolve(view, begun(decided, clock.now()))
        for decision in decided.decisions:
            if decision.kind is not Kind.WAIT:
                executor.carry_out(view.jobs[decision.job].job, decision)
        yield Frame(clock.now(), view, decided, after)
        view = after
        following = _next_moment(view, clock.now(), executor.next_due(), coming)
        if following is None:
            return
        clock.move_to(following)


def _next_moment(view: View, now: float, due: float | None, coming: list[Arrival]) -> float | None:
    moments = [moment for moment in (due, coming[0].at if coming else None) if moment is not None]
    if not moments:
        return None
    waiting = any(state.phase is Phase.WAITING for state in view.jobs.values())
    return min([*moments, now + INTERVAL] if waiting else moments)
