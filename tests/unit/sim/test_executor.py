"""The executor without machines: what each change costs, what falls due when, and who disturbs whom."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import pytest

from muster.model.decision import Decision, Kind
from muster.model.event import Ended, Event, Migrated, Outcome, Preempted, Resized, Started
from muster.model.job import Job, Program
from muster.model.placement import Placement
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.perf.learnt.held import Held
from muster.sim.disturbance import Disturbance
from muster.sim.executor import Pauses, VirtualClock, VirtualExecutor
from muster.sim.life import Life
from muster.sim.result import Stint
from muster.sim.truth import JobPace
from muster.sim.worlds.power import PowerLaw
from tests.builders import cluster, job, node_set, placement, running
from tests.numbers import name_of, number

WHY = Reason(Code.STARTED)
PAUSES = Pauses(start=30.0, resize=10.0, migrate=20.0, release=0.0, checkpoint=600.0)
J = job("j", 1, most=4)
ONE = placement(("n0", 1))
TWO = placement(("n0", 1), ("n0", 2))
AWAY = placement(("n1", 1))


class Stage:
    """An executor on two nodes of four devices, and its clock."""

    def __init__(self, pauses: Pauses = PAUSES, **more: Any) -> None:
        self.clock = VirtualClock()
        self.executor = VirtualExecutor(self.clock, cluster(2, node_set(devices=4)), pauses, **more)
        self.executor.stints = []

    def admit(self, asked: Job = J, work: float = 100.0) -> Life:
        return self.executor.admit(asked, PowerLaw(work))

    def order(self, kind: Kind, generation: int, to: Placement | None = None, asked: Job = J) -> None:
        self.executor.carry_out(asked, Decision(kind, asked.number, generation, WHY, to))

    def at(self, moment: float) -> Sequence[Event]:
        self.clock.move_to(moment)
        return self.executor.collect()


def ends(events: Sequence[Event]) -> list[tuple[str, float]]:
    return [(name_of(event.job), event.at) for event in events if isinstance(event, Ended)]


def test_a_start_pauses_and_then_works() -> None:
    """30 s of pause, 100 s of work."""
    stage = Stage()
    life = stage.admit()
    stage.order(Kind.START, 1, ONE)
    assert stage.at(0.0) == [Started(number("j"), 1, 0.0)]
    assert stage.executor.next_due() == 130.0
    assert ends(stage.at(500.0)) == [("j", 130.0)]
    assert (life.seconds, life.paused, life.held, life.lost) == (130.0, 30.0, 130.0, 30.0)


@dataclass(frozen=True, slots=True)
class Slower(PowerLaw):
    """Works at half of its speed from 50 on."""

    def pace(self, crew: Held, done: float) -> JobPace:
        return JobPace(1.0, 50.0) if done < 50.0 else JobPace(0.5)


@pytest.mark.parametrize("before", [60.0, 81.0, inf])
def test_a_change_of_pace_is_no_news_and_happens_in_time_all_the_same(before: float) -> None:
    """30 s of pause, 50 s at full speed, 100 s at half of it."""
    stage = Stage()
    life = stage.executor.admit(J, Slower(100.0))
    stage.order(Kind.START, 1, ONE)
    stage.at(0.0)
    news = stage.executor.next_news(before)
    assert news == (80.0 if before < 80.0 else 180.0)
    assert life.pace.rate == (1.0 if before < 80.0 else 0.5)
    assert ends(stage.at(500.0)) == [("j", 180.0)]


@pytest.mark.parametrize(
    ("kind", "to", "event", "pause"),
    [(Kind.RESIZE, TWO, Resized, 10.0), (Kind.MIGRATE, AWAY, Migrated, 20.0)],
)
def test_a_change_at_once_has_its_own_pause(
    kind: Kind, to: Placement, event: type[Resized | Migrated], pause: float
) -> None:
    """At 80 it has done 50; then the pause, then the other 50 at the rate of its devices."""
    stage = Stage()
    life = stage.admit()
    stage.order(Kind.START, 1, ONE)
    stage.at(80.0)
    stage.order(kind, 2, to)
    assert stage.at(80.0) == [event(number("j"), 2, 80.0)]
    assert ends(stage.at(500.0)) == [("j", 80.0 + pause + 50.0 / to.devices)]
    assert life.paused == 30.0 + pause
    assert life.lost == 30.0 + pause * to.devices
    assert (life.resizes, life.migrations) == (kind is Kind.RESIZE, kind is Kind.MIGRATE)


def test_a_change_with_a_release_goes_on_working_until_then() -> None:
    """Ordered at 80 with 50 done, effective at 85 with 55 done; pause to 95; 45 at 2 per s: 117.5."""
    stage = Stage(replace(PAUSES, release=5.0))
    stage.admit()
    stage.order(Kind.START, 1, ONE)
    stage.at(80.0)
    stage.order(Kind.RESIZE, 2, TWO)
    assert stage.at(84.0) == []
    assert stage.at(85.0) == [Resized(number("j"), 2, 85.0)]
    assert ends(stage.at(500.0)) == [("j", 117.5)]


@pytest.mark.parametrize("release", [0.0, 5.0])
def test_a_stop_keeps_the_work_and_the_next_start_goes_on_from_there(release: float) -> None:
    """50 done at 80 and `release` more until it stops; from 200 on 30 s of pause, then the rest."""
    stage = Stage(replace(PAUSES, release=release))
    life = stage.admit()
    stage.order(Kind.START, 1, ONE)
    stage.at(80.0)
    stage.order(Kind.PREEMPT, 1)
    assert stage.at(80.0 + release) == [Preempted(number("j"), 1, 80.0 + release)]
    stage.at(200.0)
    stage.order(Kind.START, 2, ONE)
    assert ends(stage.at(500.0)) == [("j", 200.0 + 30.0 + 50.0 - release)]
    assert (life.preemptions, life.resizes, life.paused) == (1, 0, 60.0)
    assert life.seconds == life.held == 160.0


def test_stopped_and_started_at_one_moment_is_one_resize() -> None:
    stage = Stage()
    life = stage.admit()
    stage.order(Kind.START, 1, ONE)
    stage.at(80.0)
    stage.order(Kind.PREEMPT, 1)
    stage.order(Kind.START, 2, TWO)
    assert [type(event) for event in stage.at(80.0)] == [Preempted, Started]
    assert (life.preemptions, life.resizes) == (0, 1)
    assert ends(stage.at(500.0)) == [("j", 80.0 + 30.0 + 25.0)]


def test_what_ends_before_its_change_takes_effect_has_ended() -> None:
    stage = Stage(replace(PAUSES, release=60.0))
    stage.admit()
    stage.order(Kind.START, 1, ONE)
    stage.at(100.0)
    stage.order(Kind.RESIZE, 2, TWO)
    events = stage.at(1000.0)
    assert [(type(event), event.at) for event in events if not isinstance(event, Started)] == [
        (Ended, 130.0)
    ]


def test_events_of_one_moment_come_in_the_order_in_which_they_were_set() -> None:
    stage = Stage(Pauses(0.0, 0.0, 0.0))
    for name, bits in (("b", 1), ("a", 2), ("c", 4)):
        asked = job(name)
        stage.admit(asked)
        stage.order(Kind.START, 1, placement(("n0", bits)), asked)
    assert ends(stage.at(100.0)) == [("b", 100.0), ("a", 100.0), ("c", 100.0)]


# Nodes that are lost


def test_a_job_whose_gang_is_broken_stops_where_it_last_saved() -> None:
    """Workers on both nodes, 2 per s from 30 on; at 130 it has done 200 of 1000, saved at 30 only."""
    stage = Stage()
    life = stage.admit(work=1000.0)
    both = placement(("n0", 1), ("n1", 1))
    stage.order(Kind.START, 1, both)
    stage.at(130.0)
    stage.executor.after_loss({J.number: JobState(J, Phase.WAITING, 0.0, generation=2)}, "n1")
    assert (life.done, life.failures, life.crew) == (0.0, 1, None)
    assert life.lost == 2 * 30.0 + 2 * 100.0
    assert stage.executor.next_due() is None


def test_a_job_whose_gang_is_whole_goes_on_with_what_is_left() -> None:
    """From 130 the pause of a resize, then 1000 - 0 at 1 per s."""
    stage = Stage()
    life = stage.admit(work=1000.0)
    stage.order(Kind.START, 1, placement(("n0", 1), ("n1", 1)))
    stage.at(130.0)
    stage.executor.after_loss({J.number: running(J, ONE, generation=2)}, "n1")
    assert (life.generation, life.placement, life.failures) == (2, ONE, 1)
    assert ends(stage.at(2000.0)) == [("j", 130.0 + 10.0 + 1000.0)]


@pytest.mark.parametrize("node", ["n0", "n1"])
def test_a_node_lost_during_a_change_ends_the_run(node: str) -> None:
    """A migration under way holds both places; whichever goes, the job waits again."""
    stage = Stage(replace(PAUSES, release=10.0))
    life = stage.admit()
    stage.order(Kind.START, 1, ONE)
    stage.at(50.0)
    stage.order(Kind.MIGRATE, 2, AWAY)
    stage.clock.move_to(55.0)
    stage.executor.after_loss({J.number: JobState(J, Phase.WAITING, 0.0, generation=3)}, node)
    assert life.crew is None
    assert stage.at(1000.0) == []


def test_jobs_elsewhere_do_not_notice() -> None:
    stage = Stage()
    life = stage.admit()
    stage.order(Kind.START, 1, ONE)
    stage.at(50.0)
    stage.executor.after_loss({J.number: running(J, ONE)}, "n1")
    assert (life.done, life.failures) == (0.0, 0)
    assert ends(stage.at(500.0)) == [("j", 130.0)]


# Neighbours


def wide(name: str, bit: int) -> tuple[Job, Placement]:
    return job(name, 2), placement(("n0", bit), ("n1", bit))


def test_jobs_over_several_nodes_slow_each_other_while_both_are_there() -> None:
    """Each does 2 per s alone, 2 / 1.25 = 1.6 beside the other.

    a: 100 s alone is 200; from 100 on at 1.6. b (320 of work) from 100 to 300. Then a has done
    200 + 320 = 520 and needs 480 more, at 2 per s: 540.
    """
    stage = Stage(Pauses(0.0, 0.0, 0.0), disturbance=Disturbance(network=0.25))
    for (asked, to), work, when in ((wide("a", 1), 1000.0, 0.0), (wide("b", 4), 320.0, 100.0)):
        stage.at(when)
        stage.admit(asked, work)
        stage.order(Kind.START, 1, to, asked)
    assert ends(stage.at(1000.0)) == [("b", 300.0), ("a", 540.0)]


def test_a_neighbour_that_moves_away_disturbs_no_more() -> None:
    """a at 1.6 from 0 to 100 is 160, the other 240 at 2 per s take 120 s."""
    stage = Stage(Pauses(0.0, 0.0, 0.0), disturbance=Disturbance(network=0.25))
    for (asked, to), work in ((wide("a", 1), 400.0), (wide("b", 4), 1e6)):
        stage.admit(asked, work)
        stage.order(Kind.START, 1, to, asked)
    stage.at(100.0)
    b = wide("b", 4)[0]
    stage.order(Kind.MIGRATE, 2, placement(("n1", 2), ("n1", 4)), b)
    assert ends(stage.at(1000.0)) == [("a", 220.0)]


def test_a_job_on_one_node_is_no_neighbour_on_the_network() -> None:
    stage = Stage(Pauses(0.0, 0.0, 0.0), disturbance=Disturbance(network=0.25))
    asked, to = wide("a", 1)
    stage.admit(asked, 400.0)
    stage.order(Kind.START, 1, to, asked)
    stage.admit(J, 100.0)
    stage.order(Kind.START, 1, placement(("n0", 8)))
    assert ends(stage.at(1000.0)) == [("j", 100.0), ("a", 200.0)]


# Who held what


def test_stints_say_who_held_what_and_the_last_are_closed() -> None:
    stage = Stage()
    stage.admit(work=1000.0)
    stage.order(Kind.START, 1, ONE)
    stage.at(50.0)
    stage.order(Kind.RESIZE, 2, TWO)
    stage.at(80.0)
    stage.executor.close()
    assert stage.executor.stints == [Stint("j", "n0", 1, 0.0, 50.0), Stint("j", "n0", 3, 50.0, 80.0)]
    assert stage.executor.lives[number("j")].held == 50.0 + 2 * 30.0


def test_what_is_changed_twice_at_a_moment_leaves_no_empty_stint() -> None:
    stage = Stage()
    stage.admit()
    stage.order(Kind.START, 1, ONE)
    stage.order(Kind.RESIZE, 2, TWO)
    stage.at(10.0)
    stage.executor.close()
    assert stage.executor.stints == [Stint("j", "n0", 3, 0.0, 10.0)]


def test_nodes_that_were_added_count() -> None:
    """Three nodes now; the job runs on the new one."""
    stage = Stage(Pauses(0.0, 0.0, 0.0))
    life = stage.admit()
    stage.executor.extend(cluster(3, node_set(devices=4)))
    stage.order(Kind.START, 1, placement(("n2", 1), ("n0", 1)))
    assert life.crew is not None
    assert (life.crew.device_type, life.crew.shape) == ("A100", (1, 1))


def test_a_run_ends_at_its_time_limit_and_the_next_has_it_anew() -> None:
    """100 s of work, of which a run may take 60: stopped after 20, the next run has 60 again."""
    asked = job("limited", program=Program(time=60.0))
    stage = Stage(Pauses(start=0.0, release=0.0))
    life = stage.admit(asked)
    stage.order(Kind.START, 1, ONE, asked)
    stage.at(20.0)
    assert stage.executor.next_due() == 60.0
    stage.order(Kind.PREEMPT, 1, None, asked)
    stage.at(100.0)
    stage.order(Kind.START, 3, ONE, asked)
    (end,) = [each for each in stage.at(500.0) if isinstance(each, Ended)]
    assert (end.at, end.outcome, life.done) == (160.0, Outcome.FAILED, 80.0)
