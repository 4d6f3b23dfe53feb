"""What a sweep does next, in small cases worked out by hand."""

from muster.core.sweeps.next_steps import LEAST_WAITING, Doing, next_steps
from muster.core.sweeps.rungs import verdict
from muster.core.sweeps.sweep_state import SweepState, fold_sweep, sweep_of
from muster.model.event import Cancelled, Ended, Outcome
from muster.model.sweep import (
    Asha,
    Axis,
    MemberPromoted,
    MemberSubmitted,
    RungReached,
    Sweep,
    SweepResized,
    SweepStopped,
    SweepSubmitted,
)
from muster.model.task import Fact, StopAsked
from tests.builders import job


def a_sweep(size: int, asha: Asha | None = None, at_most: int = 0) -> Sweep:
    axis = Axis("x", tuple(map(str, range(size))))
    return Sweep(10, job("search", 1), (axis,), at_most=at_most, asha=asha)


def after(sweep: Sweep, *facts: Fact) -> SweepState:
    states = fold_sweep({}, SweepSubmitted(sweep, 0.0))
    for fact in facts:
        states = fold_sweep(states, fact)
    return states[sweep.number]


def entered(count: int) -> list[Fact]:
    return [MemberSubmitted(11 + place, 10, 0.0) for place in range(count)]


def reached(rung: int, **values: float | None) -> list[Fact]:
    return [RungReached(11 + int(name[1:]), 10, rung, value, 0.0) for name, value in values.items()]


def test_a_few_members_are_in_the_queue_and_more_as_some_run() -> None:
    state = after(a_sweep(1000))
    assert next_steps(state, {}).enter == tuple(range(LEAST_WAITING))
    state = after(a_sweep(1000), *entered(20))
    running = dict.fromkeys(range(20), Doing.RUNS)
    assert next_steps(state, running).enter == tuple(range(20, 40))


def test_no_more_members_are_in_the_queue_or_run_than_may() -> None:
    state = after(a_sweep(16, at_most=4), *entered(3))
    assert next_steps(state, {0: Doing.RUNS, 1: Doing.RUNS, 2: Doing.LEAVES}).enter == (3,)
    state = after(a_sweep(16, at_most=4), *entered(3), SweepResized(10, 2, "ann", 0.0))
    assert not next_steps(state, {1: Doing.RUNS, 2: Doing.WAITS}).enter


def test_a_stopped_sweep_sends_nobody_and_ends_with_its_last_member() -> None:
    state = after(a_sweep(16), *entered(2), SweepStopped(10, "ann", 0.0))
    assert not next_steps(state, {0: Doing.LEAVES}).enter
    assert not next_steps(state, {0: Doing.LEAVES}).ends
    assert next_steps(state, {}).ends


def test_the_first_at_a_rung_pauses_and_goes_on_once_it_is_among_the_best_third() -> None:
    sweep = a_sweep(9, Asha())
    first = after(sweep, *entered(3), *reached(0, m0=0.5))
    assert next_steps(first, dict.fromkeys(range(3), Doing.RUNS)).pause == ((0, 0),)
    third = after(sweep, *entered(3), *reached(0, m0=0.5, m1=0.7, m2=0.9))
    live = {0: Doing.PAUSES, 1: Doing.PAUSES, 2: Doing.RUNS}
    steps = next_steps(third, live)
    assert steps.promote == ((0, 0),)
    assert steps.pause == ((2, 0),)
    assert not steps.stop  # six are yet to come, and with them two places


def test_who_is_among_the_best_when_it_comes_goes_on_without_a_pause() -> None:
    state = after(a_sweep(9, Asha()), *entered(3), *reached(0, m0=0.5, m1=0.7, m2=0.1))
    steps = next_steps(state, {0: Doing.PAUSES, 1: Doing.PAUSES, 2: Doing.RUNS})
    assert steps.promote == ((2, 0),)
    assert not steps.pause


def test_whom_no_place_can_be_left_for_stops_for_good() -> None:
    values = {f"m{place}": place / 10 for place in range(5)}
    state = after(a_sweep(6, Asha()), *entered(6), *reached(0, **values))
    live = {**dict.fromkeys(range(5), Doing.PAUSES), 5: Doing.RUNS}
    assert next_steps(state, live).stop == ((2, 0), (3, 0), (4, 0))  # of six, two go on


def test_a_metric_that_is_no_number_never_goes_on() -> None:
    state = after(a_sweep(9, Asha()), *entered(3), *reached(0, m0=None, m1=0.5, m2=0.9))
    steps = next_steps(state, dict.fromkeys(range(3), Doing.RUNS))
    assert (0, 0) in steps.stop
    assert steps.promote == ((1, 0),)
    assert verdict(state, 0, 0, final=True).startswith("stopped at rung 1 (1 epoch): loss is no number")


def test_the_largest_goes_on_where_more_is_better() -> None:
    asha = Asha("accuracy", largest=True, rung=2)
    state = after(a_sweep(9, asha), *entered(3), *reached(0, m0=0.1, m1=0.9, m2=0.5))
    assert next_steps(state, dict.fromkeys(range(3), Doing.RUNS)).promote == ((1, 0),)
    words = verdict(state, 2, 0, final=False)
    assert words == ("paused at rung 1 (2 epochs): accuracy 0.5, the best third of 3 at or above 0.9")


def test_a_rung_that_too_few_can_reach_stops_nobody() -> None:
    facts: list[Fact] = [*entered(3), *reached(0, m0=0.1, m1=0.5, m2=0.9)]
    facts += [MemberPromoted(11, 10, 0, 0.0), StopAsked(12, 0.0, why="no"), Cancelled(12, 0.0)]
    facts += [StopAsked(13, 0.0, why="no"), Cancelled(13, 0.0), *reached(1, m0=0.05)]
    state = after(a_sweep(3, Asha()), *facts)
    assert state.over == {1: "pruned", 2: "pruned"}
    steps = next_steps(state, {0: Doing.RUNS})
    assert steps.promote == ((0, 1),)
    assert not steps.stop


def test_a_failed_member_leaves_its_place_to_nobody() -> None:
    facts = [*entered(6), *reached(0, m0=0.1, m1=0.2, m2=0.3)]
    failed = [Ended(14 + place, 1, Outcome.FAILED, 0.0) for place in range(3)]
    state = after(a_sweep(6, Asha()), *facts, *failed)
    live = dict.fromkeys(range(3), Doing.PAUSES)
    assert next_steps(state, live).promote == ((0, 0),)
    assert next_steps(state, live).stop == ((1, 0), (2, 0))


def test_a_job_belongs_to_the_sweep_of_its_number() -> None:
    state = after(a_sweep(3))
    assert sweep_of({10: state}, 12) == (state, 1)
    assert sweep_of({10: state}, 10) is None
    assert sweep_of({10: state}, 14) is None
