"""The next steps of a sweep as facts, from the state at the moment they are folded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muster.core.sweeps.next_steps import Doing, next_steps
from muster.core.sweeps.rungs import verdict
from muster.core.sweeps.sweep_state import SweepState, fold_sweep
from muster.daemon.loop.state import State
from muster.daemon.loop.stops import preempted, stopped
from muster.model.event import JobHeld, JobReleased
from muster.model.sweep import (
    HELD,
    MemberPromoted,
    MemberSubmitted,
    RungReached,
    SweepEnded,
)
from muster.model.task import Fact
from muster.model.view import Phase


@dataclass(frozen=True, slots=True)
class Measured:
    """A member's metric after some epochs."""

    job: int
    epochs: int
    value: float | None


def step_facts(state: State, sweep: int, measured: Sequence[Measured], now: float) -> list[Fact]:
    """Return what a sweep does next, after these measurements; nothing if it has ended."""
    known = state.sweeps.get(sweep)
    if known is None:
        return []
    reached = [fact for each in measured for fact in _reached(state, known, each, now)]
    for fact in reached:
        known = fold_sweep({sweep: known}, fact)[sweep]
    steps = next_steps(known, doings(state, known))
    number, facts = known.sweep.job_number, list[Fact](reached)
    for place, rung in steps.promote:
        facts.append(MemberPromoted(number(place), sweep, rung, now))
        if state.view.jobs[number(place)].held_by == HELD:
            facts.append(JobReleased(number(place), HELD, now))
    for place, rung in steps.pause:
        held = JobHeld(number(place), HELD, now, verdict(known, place, rung, final=False))
        facts += [held, *preempted(state, held)]
    for place, rung in steps.stop:
        why = verdict(known, place, rung, final=True)
        facts += stopped(state, number(place), False, now, why)
    facts += _entering(state, known, steps.enter, now)
    return [*facts, SweepEnded(sweep, now)] if steps.ends else facts


def _reached(state: State, sweep: SweepState, measured: Measured, now: float) -> Iterator[Fact]:
    """Yield that a member has reached its next rung, unless it may not go on from its last."""
    place, asha = sweep.sweep.place_of(measured.job), sweep.sweep.asha
    if place is None or asha is None or measured.job not in state.view.jobs:
        return
    rung = sweep.next_rung(place)
    if not sweep.is_paused(place) and measured.epochs >= asha.epochs(rung):
        yield RungReached(measured.job, sweep.sweep.number, rung, measured.value, now)


def doings(state: State, sweep: SweepState) -> dict[int, Doing]:
    """Return what the live members of a sweep do, by position."""
    found = {}
    for place in range(sweep.entered):
        job = state.view.jobs.get(sweep.sweep.job_number(place))
        if job is None:
            continue
        idle, held = job.phase is Phase.WAITING, job.held_by == HELD or place in sweep.losers
        if held:
            found[place] = Doing.PAUSES if idle else Doing.LEAVES
        else:
            found[place] = Doing.WAITS if idle else Doing.RUNS
    return found


def _entering(
    state: State, sweep: SweepState, places: Sequence[int], now: float
) -> Iterator[MemberSubmitted]:
    """Yield members that enter the queue, in order: one whose name is in use keeps the rest waiting."""
    for place in places:
        if f"{sweep.sweep.user}/{sweep.sweep.member_name(place)}" in state.view.names:
            return
        yield MemberSubmitted(sweep.sweep.job_number(place), sweep.sweep.number, now)
