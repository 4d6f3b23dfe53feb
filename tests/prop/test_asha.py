"""Successive halving, whatever order members come in and however they do: nobody goes beyond a rung
who is not among its best, everybody comes to an end, and no more run than may."""

import random
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.sweeps.next_steps import Doing, NextSteps, next_steps
from muster.core.sweeps.sweep_state import SweepState, fold_sweep
from muster.model.event import Cancelled, Ended, Outcome
from muster.model.sweep import (
    Asha,
    Axis,
    MemberPromoted,
    MemberSubmitted,
    RungReached,
    Sweep,
    SweepSubmitted,
)
from muster.model.task import Fact, StopAsked
from tests.builders import job

NUMBER = 10
LAST = 4
"""The rung after which a member's own training ends."""


class World:
    """A sweep, and members that start, report, end and fail in an order of their own."""

    def __init__(self, size: int, at_most: int, asha: Asha, seed: int) -> None:
        axis = Axis("x", tuple(map(str, range(size))))
        sweep = Sweep(NUMBER, job("search", 1), (axis,), at_most=at_most, asha=asha)
        self.random = random.Random(seed)
        self.states = fold_sweep({}, SweepSubmitted(sweep, 0.0))
        self.live: dict[int, Doing] = {}
        self.promotions: list[tuple[int, int]] = []

    @property
    def state(self) -> SweepState:
        return self.states[NUMBER]

    def note(self, fact: Fact) -> None:
        self.states = fold_sweep(self.states, fact)

    def step(self) -> NextSteps:
        """Do what the sweep says; check it as it is done."""
        steps, number = next_steps(self.state, self.live), self.state.sweep.job_number
        for place, rung in steps.promote:
            self.check_promotion(place, rung)
            self.note(MemberPromoted(number(place), NUMBER, rung, 0.0))
            if self.live[place] is Doing.PAUSES:
                self.live[place] = Doing.WAITS
        for place, _ in steps.pause:
            self.live[place] = Doing.LEAVES if self.live[place] is Doing.RUNS else Doing.PAUSES
        for place, _ in steps.stop:
            self.note(StopAsked(number(place), 0.0, why="at a rung"))
            idle = self.live[place] in (Doing.PAUSES, Doing.WAITS)
            self.end(place, Cancelled(number(place), 0.0)) if idle else None
            if not idle:
                self.live[place] = Doing.LEAVES
        for place in steps.enter:
            self.note(MemberSubmitted(number(place), NUMBER, 0.0))
            self.live[place] = Doing.WAITS
        return steps

    def check_promotion(self, place: int, rung: int) -> None:
        asha, values = self.state.sweep.asha, self.state.rungs[rung].values
        assert asha is not None
        value = values[place]
        assert value is not None
        better = sum(other is not None and other < value for other in values.values())
        # Below eta nobody can be compared: those that are left train to their own end.
        assert better < len(values) // asha.eta or len(values) < asha.eta
        assert (place, rung) not in self.promotions
        assert self.state.next_rung(place) == rung + 1
        self.promotions.append((place, rung))

    def end(self, place: int, fact: Fact) -> None:
        self.note(fact)
        del self.live[place]

    def happen(self, values: Mapping[tuple[int, int], float | None]) -> None:
        """Let one member do something."""
        place = self.random.choice(sorted(self.live))
        number, doing = self.state.sweep.job_number(place), self.live[place]
        if doing is Doing.WAITS:
            self.live[place] = Doing.RUNS
        elif doing is Doing.LEAVES and place in self.state.losers:
            self.end(place, Cancelled(number, 0.0))
        elif doing is Doing.LEAVES:
            self.live[place] = Doing.PAUSES
        elif doing is Doing.RUNS:
            rung = self.state.next_rung(place)
            if rung > LAST or self.random.random() < 0.05:
                outcome = Outcome.SUCCEEDED if rung > LAST else Outcome.FAILED
                self.end(place, Ended(number, 1, outcome, 0.0))
            else:
                self.note(RungReached(number, NUMBER, rung, values.get((place, rung)), 0.0))


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 30),
    at_most=st.integers(0, 6),
    eta=st.integers(2, 4),
    seed=st.integers(0, 10_000),
    data=st.data(),
)
def test_only_the_best_go_on_and_all_come_to_an_end(
    size: int, at_most: int, eta: int, seed: int, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.none() | st.floats(0, 1), min_size=size, max_size=size))
    values = {
        (place, rung): None if value is None else value + rung / 100
        for place, value in enumerate(drawn)
        for rung in range(LAST + 1)
    }
    world = World(size, at_most, Asha(eta=eta), seed)
    for _ in range(100 * size + 100):
        steps = world.step()
        with_tasks = sum(each in (Doing.RUNS, Doing.LEAVES) for each in world.live.values())
        assert not at_most or with_tasks <= at_most
        if steps.ends:
            break
        moving = [place for place, doing in world.live.items() if doing is not Doing.PAUSES]
        assert moving or world.step() != NextSteps(), "nothing moves, and it has not ended"
        if moving:
            world.happen(values)
    else:
        raise AssertionError("the sweep never ends")
    assert len(world.state.over) == size


@settings(max_examples=30, deadline=None)
@given(values=st.lists(st.floats(0, 1), min_size=9, max_size=9, unique=True), seed=st.integers(0, 999))
def test_the_best_of_all_is_never_stopped(values: list[float], seed: int) -> None:
    world = World(9, 0, Asha(eta=3), seed)
    best = values.index(min(values))
    by_rung = {(place, rung): value for place, value in enumerate(values) for rung in range(9)}
    while not world.step().ends:
        if any(doing is not Doing.PAUSES for doing in world.live.values()):
            world.happen(by_rung)
        assert best not in world.state.losers
