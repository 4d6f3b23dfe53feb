"""One job's progress, by hand: work at a pace, pauses, crews that change, and what a failure costs."""

from dataclasses import dataclass, field
from math import inf

import pytest

from muster.model.outlook import Outlook, Table
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.sim.life import Life
from muster.sim.truth import Ideal, JobPace
from tests.builders import job, placement

ONE, TWO = placement(("n0", 1)), placement(("n0", 1), ("n0", 2))


@dataclass(frozen=True, slots=True)
class Steps:
    """One unit per s and worker up to `turn`, then `after` times that."""

    work: float = 100.0
    turn: float = inf
    after: float = 1.0
    asked: list[float] = field(default_factory=list, compare=False)

    def pace(self, crew: Held, done: float) -> JobPace:
        self.asked.append(done)
        early = done < self.turn
        return JobPace(crew.workers * (1.0 if early else self.after), self.turn if early else inf)

    def shown(self, crew: Held, done: float) -> StepReport:
        return StepReport(1.0)

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        return Outlook(self.work - done, Table((1.0,)))

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        return Ideal(self.work / most, self.work)


def begun(truth: Steps | None = None, resumes: float = 0.0) -> Life:
    life = Life(job("j", 1, most=2), truth or Steps(), submitted=0.0)
    life.set_crew(Held("A100", (1,)), ONE, resumes)
    return life


def test_the_end_moves_when_the_crew_grows() -> None:
    """100 at 1 per s would end at 100; 40 s at 1 leave 60, which take 30 s at 2."""
    life = begun()
    assert life.next_milestone() == (100.0, True)
    life.advance(40.0)
    life.set_crew(Held("A100", (2,)), TWO, 40.0)
    assert life.next_milestone() == (70.0, True)
    life.advance(70.0)
    assert life.done == 100.0
    assert (life.seconds, life.held) == (70.0, 40.0 + 2 * 30.0)


def test_a_pause_is_held_and_lost_but_does_no_work() -> None:
    life = begun(resumes=30.0)
    assert life.next_milestone() == (130.0, True)
    life.advance(20.0)
    assert (life.done, life.paused, life.held, life.lost) == (0.0, 20.0, 20.0, 20.0)
    life.advance(50.0)
    assert (life.done, life.paused, life.held, life.lost) == (20.0, 30.0, 50.0, 30.0)


def test_time_does_not_run_backwards() -> None:
    life = begun()
    life.advance(10.0)
    life.advance(5.0)
    life.advance(10.0)
    assert (life.at, life.done, life.seconds) == (10.0, 10.0, 10.0)


def test_without_a_crew_time_passes_and_nothing_else() -> None:
    life = begun()
    life.advance(10.0)
    life.set_crew(None, None, 10.0)
    life.advance(100.0)
    assert (life.done, life.seconds, life.held, life.at) == (10.0, 10.0, 10.0, 100.0)
    assert life.next_milestone() == (inf, False)


def test_the_pace_may_change_on_the_way() -> None:
    """25 at 1 per s, then at half of it: the rest of 75 takes 150 s."""
    life = begun(Steps(turn=25.0, after=0.5))
    assert life.next_milestone() == (25.0, False)
    life.advance(25.0)
    life.renew()
    assert life.next_milestone() == (175.0, True)


def test_neighbours_make_it_slower() -> None:
    """At 1 / 1.25 the 100 take 125 s."""
    life = begun()
    life.slowdown = 1.25
    assert life.next_milestone() == (125.0, True)
    life.advance(50.0)
    assert life.done == 40.0


@pytest.mark.parametrize(
    ("checkpoint", "done", "lost"),
    [
        (20.0, 40.0, 10.0),  # the last was 40 s after it began
        (0.0, 50.0, 0.0),  # saved all the time
        (600.0, 0.0, 50.0),  # only what the crew began with
        (inf, 0.0, 50.0),
    ],
)
def test_a_failure_costs_the_work_since_the_last_checkpoint(
    checkpoint: float, done: float, lost: float
) -> None:
    life = begun()
    life.advance(50.0)
    life.fall_back(checkpoint)
    assert (life.done, life.lost) == (done, lost)


def test_what_was_done_when_a_crew_began_is_safe() -> None:
    """At 30 it had done 30 and was resized; 25 s at 2 per s more make 80, of which 30 are safe."""
    life = begun()
    life.advance(30.0)
    life.set_crew(Held("A100", (2,)), TWO, 30.0)
    life.advance(55.0)
    assert life.done == 80.0
    life.fall_back(600.0)
    assert life.done == 30.0
    assert life.lost == 2 * 25.0


def test_a_failure_in_a_pause_costs_no_work() -> None:
    life = begun(resumes=30.0)
    life.advance(20.0)
    life.fall_back(600.0)
    assert (life.done, life.lost) == (0.0, 20.0)


def test_it_is_on_the_nodes_it_has_and_on_those_it_is_to_have() -> None:
    life = begun()
    life.target = placement(("n1", 1))
    assert life.is_on("n0") and life.is_on("n1") and not life.is_on("n2")
    life.set_crew(Held("A100", (1,)), life.target, 0.0)
    assert not life.is_on("n0") and life.is_on("n1") and life.target is None
