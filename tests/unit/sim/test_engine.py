"""The driver: when it decides, what it is told, and what nodes, rounds and stubborn policies do."""

import pickle
from dataclasses import dataclass, field, replace
from math import inf

import pytest

from muster.core.cycle.cycle import Cycle, Decisions, Memory, decide
from muster.core.cycle.cycle_state import Rules
from muster.model.cluster import Node
from muster.model.decision import Decision, Kind
from muster.model.event import NodeAdded, NodeDraining, NodeLost, NodeReturned
from muster.model.job import Job
from muster.model.pool import Entitlements
from muster.model.reason import Code, Reason
from muster.model.view import View
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.policy.base import Shares, exactly
from muster.policy.published.fifo import Fifo
from muster.policy.registry import POLICIES
from muster.sim.beliefs import Oracle
from muster.sim.disturbance import Disturbance
from muster.sim.engine import SETTLED, Engine
from muster.sim.executor import Pauses
from muster.sim.result import Fate
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed
from tests.builders import cluster, job, mixed, node_set
from tests.unit.sim.scripted import FREE, arrival, frames, kinds, of, run, script, setting

# Shares that move


def test_an_end_is_timed_anew_when_the_share_moves() -> None:
    """100 at 1 per s for 40 s, then at 2 per s: 40 + 30."""
    policy = script((0.0, {"j": 1}), (40.0, {"j": 2}))
    result = run(setting(policy), arrival(job("j", 1, most=4)))
    assert of(result, "j").ended == 70.0
    assert of(result, "j").resizes == 1


def test_a_share_that_shrinks_again() -> None:
    """40 at 1, then 20 s at 4 is 80, then 80 at 2: 40 + 20 + 40."""
    policy = script((0.0, {"j": 1}), (40.0, {"j": 4}), (60.0, {"j": 2}))
    result = run(setting(policy), arrival(job("j", 1, most=4), 200.0))
    assert of(result, "j").ended == 100.0
    assert of(result, "j").held == 40.0 + 4 * 20.0 + 2 * 40.0


@pytest.mark.parametrize(("release", "ended"), [(0.0, 115.0), (5.0, 117.5)])
def test_each_change_has_its_pause(release: float, ended: float) -> None:
    """Start: 30 s. At 80, 50 done: resize to 2 workers, 10 s, then 50 at 2 per s. With a release of
    5 s 5 more are done by then, and it is 85 + 10 + 45 / 2."""
    pauses = Pauses(start=30.0, resize=10.0, migrate=20.0, release=release)
    policy = script((0.0, {"j": 1}), (80.0, {"j": 2}))
    result = run(setting(policy, pauses=pauses), arrival(job("j", 1, most=4)))
    record = of(result, "j")
    assert record.ended == ended
    assert record.paused == 40.0
    assert record.lost == 30.0 + 2 * 10.0


def test_a_job_that_restarts_is_stopped_and_started_at_one_moment() -> None:
    """30 s of pause, 50 done at 80; stopped, started with 2 after 30 s more, 25 s for the rest."""
    policy = script((0.0, {"j": 1}), (80.0, {"j": 2}))
    pauses = Pauses(start=30.0, release=0.0)
    made = setting(policy, pauses=pauses)
    asked = arrival(job("j", 1, most=4, restarts=True))
    assert kinds(frames(made, asked)) == [
        (0.0, "j", "start"),
        (80.0, "j", "preempt"),
        (80.0, "j", "start"),
    ]
    record = of(run(made, asked), "j")
    assert record.ended == 80.0 + 30.0 + 25.0
    assert (record.resizes, record.preemptions) == (1, 0)


def test_stopped_for_another_and_started_again() -> None:
    """a: 40 of 100, stopped for b (8 workers, 80 of work: 10 s), then the rest."""
    policy = script((0.0, {"a": 1}), (40.0, {"a": 0, "b": 8}), (50.0, {"a": 1}))
    result = run(setting(policy), arrival(job("a")), arrival(job("b", 8), 80.0))
    assert (of(result, "a").ended, of(result, "b").ended) == (110.0, 50.0)
    assert of(result, "a").preemptions == 1


# Moments


def test_an_arrival_an_end_and_a_lost_node_at_one_moment_are_one_cycle() -> None:
    """At 100 `a` ends, `b` comes, n1 goes: one view has all of it, in that order."""
    made = setting(Fifo(), incidents=(NodeLost("n1", 100.0),))
    played = frames(made, arrival(job("a", 4)), arrival(job("b", 4), at=25.0))
    assert [(f.now, sorted(f.before.names)) for f in played] == [
        (0.0, ["nobody/a"]),
        (25.0, ["nobody/b"]),
        (50.0, []),
    ]


def test_the_incident_comes_last_at_its_moment() -> None:
    made = setting(Fifo(), incidents=(NodeLost("n0", 25.0), NodeLost("n1", 25.0)))
    played = frames(replace(made, until=100.0), arrival(job("a", 4)), arrival(job("b", 4), at=25.0))
    assert [(f.now, sorted(f.before.names)) for f in played][:2] == [
        (0.0, ["nobody/a"]),
        (25.0, ["nobody/b"]),
    ]
    assert kinds(played) == [(0.0, "a", "start")]


def test_jobs_without_work_all_pass_at_one_moment() -> None:
    """Twenty of them on one device, one after the other: more than the cycles of one moment."""
    made = setting(Fifo(), cluster(1, node_set(devices=1)))
    jobs = [arrival(job(f"j{i:02}"), truth=Fixed(0.0)) for i in range(20)]
    result = run(made, *jobs)
    assert {record.ended for record in result.records} == {0.0}


@dataclass(frozen=True, slots=True)
class Restless:
    """Wants one more, then one fewer, every time it is asked."""

    name: str = "restless"
    informed: bool = False
    again: float = inf

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        turn = memory if isinstance(memory, int) else 0
        found = tuple(exactly(name, 1 + turn % 2) for name in view.jobs)
        return Shares(found, turn + 1, steers=True, again=self.again)


def test_a_policy_that_never_settles_does_not_stop_time() -> None:
    """At 10 it changes its mind in every cycle. After eight of them, an even number, j has one worker
    as before, and so has k; when k ends, the same again, so j ends after its 100 s."""
    played = frames(
        setting(Restless()), arrival(job("j", 1, most=2)), arrival(job("k", 1, most=2), 50.0, at=10.0)
    )
    assert [frame.now for frame in played] == [0.0, *[10.0] * SETTLED, *[60.0] * SETTLED, 100.0]


def test_no_cycle_follows_for_devices_that_nobody_wants() -> None:
    """At 40 j gives back 3 of 4 workers. Nobody is to grow, and k, which waits, is to have nothing."""
    policy = script((0.0, {"j": 4}), (40.0, {"j": 1}), asks=True)
    played = frames(setting(policy), arrival(job("j", 1, most=4), 400.0), arrival(job("k"), at=5.0))
    assert [frame.now for frame in played].count(40.0) == 1


def test_a_cycle_follows_while_nobody_waits() -> None:
    """What comes free may be tried by whoever runs."""
    policy = script((0.0, {"j": 4}), (40.0, {"j": 1}), asks=True)
    played = frames(setting(policy), arrival(job("j", 1, most=4), 400.0))
    assert [frame.now for frame in played].count(40.0) == 2


def test_a_policy_that_asks_for_what_it_needs_is_not_asked_besides() -> None:
    policy = script((0.0, {"a": 8}), asks=True)
    frames(setting(policy, interval=40.0), arrival(job("a", 8), 800.0), arrival(job("b"), at=5.0))
    assert sorted({*policy.asked})[:3] == [0.0, 5.0, 100.0]


def test_a_cycle_follows_for_devices_that_somebody_waits_for() -> None:
    """At 40 j gives back 4 of 8 workers, and k starts on them at once."""
    policy = script((0.0, {"j": 8}), (40.0, {"j": 4, "k": 4}), asks=True)
    played = frames(setting(policy), arrival(job("j", 4, most=8), 800.0), arrival(job("k", 4), at=30.0))
    assert kinds(played)[1:3] == [(40.0, "j", "resize"), (40.0, "k", "start")]


def test_a_policy_that_asks_to_be_asked_at_once_is_not() -> None:
    made = setting(Restless(again=0.0), until=1000.0)
    assert [frame.now for frame in frames(made, arrival(job("j", 1, most=2)))] == [0.0, 100.0]


def test_a_policy_is_asked_again_when_it_wants() -> None:
    policy = script((0.0, {"j": 1}), (17.5, {"j": 1}), (33.0, {"j": 1}))
    frames(setting(policy), arrival(job("j")))
    assert sorted({*policy.asked}) == [0.0, 17.5, 33.0, 100.0]


def test_while_something_waits_the_policy_is_asked_every_interval() -> None:
    policy = script((0.0, {"a": 8}))
    frames(setting(policy, interval=40.0), arrival(job("a", 8), 800.0), arrival(job("b")))
    assert sorted({*policy.asked})[:4] == [0.0, 40.0, 80.0, 100.0]


# The end


def test_what_can_never_go_on_ends_the_simulation_and_is_told() -> None:
    """`b` gets nothing from the policy, for ever."""
    result = run(setting(script((0.0, {"a": 1}))), arrival(job("a")), arrival(job("b")))
    assert (of(result, "a").fate, of(result, "b").fate) == (Fate.DONE, Fate.UNFINISHED)
    assert any("unfinished 1: waiting" in note and "nothing more" in note for note in result.notes)


def test_a_job_that_runs_but_makes_no_progress_ends_the_simulation() -> None:
    """It needs two workers to move at all, and gets one."""
    result = run(setting(script((0.0, {"j": 1}))), arrival(job("j", 1, most=2), truth=Fixed(10.0, 2)))
    assert of(result, "j").fate is Fate.UNFINISHED
    assert any("unfinished 1: running" in note for note in result.notes)


def test_until_cuts_it_short_and_counts_up_to_then() -> None:
    result = run(setting(Fifo(), until=60.0), arrival(job("j", 2, gang=2), 1000.0))
    record = of(result, "j")
    assert (record.fate, record.ended) == (Fate.UNFINISHED, None)
    assert (record.run, record.held) == (60.0, 120.0)
    assert [(s.begin, s.end) for s in result.stints] == [(0.0, 60.0)]
    assert any("simulation was stopped" in note and "60 s" in note for note in result.notes)


def test_without_jobs_there_is_nothing() -> None:
    result = run(setting(Fifo()))
    assert (result.records, result.cycles) == ((), 0)


# Rounds


def test_rounds_a_job_starts_at_the_next_one_and_works_after_its_pause() -> None:
    """Submitted at 107, started at 120, at work from 150, 100 of work: 250."""
    made = setting(Fifo(), rounds=True, pauses=Pauses(start=30.0, release=0.0))
    record = of(run(made, arrival(job("j"), at=107.0)), "j")
    assert (record.submitted, record.started, record.ended) == (107.0, 120.0, 250.0)
    assert record.paused == 30.0


def test_rounds_what_ends_inside_one_is_free_at_the_next() -> None:
    """`a` ends at 130; `b`, which wants all, starts at 180 and not before."""
    made = setting(Fifo(), rounds=True, pauses=Pauses(start=30.0, release=0.0))
    result = run(made, arrival(job("a", 8), 800.0), arrival(job("b", 8), 800.0, at=10.0))
    assert of(result, "a").ended == 130.0
    assert (of(result, "b").started, of(result, "b").ended) == (180.0, 310.0)


def test_rounds_nothing_is_decided_between_them() -> None:
    played = frames(setting(Fifo(), rounds=True), arrival(job("a"), at=7.0), arrival(job("b"), at=70.0))
    assert {frame.now % 60.0 for frame in played} == {0.0}


@pytest.mark.parametrize("interval", [0.1, 0.3, 7.0, 1 / 3])
def test_rounds_of_any_length(interval: float) -> None:
    """Ten rounds and a bit of work: the cycles are at multiples, none is left out."""
    made = setting(Fifo(), rounds=True, interval=interval)
    played = frames(made, arrival(job("j"), 10.5 * interval, at=interval / 2))
    assert [frame.now for frame in played] == [k * interval for k in range(1, 12)]


def test_rounds_neighbours_are_timed_anew_inside_a_round() -> None:
    """Four workers each, three devices a node: they share one node of three. Beside each other they do
    4 / 1.25 = 3.2 per s. b's 320 are done at 100, inside a round; from then on a, with 320 of 800 done,
    goes at 4: 220."""
    made = setting(
        script((0.0, {"a": 4, "b": 4})),
        cluster(3, node_set(devices=3)),
        rounds=True,
        rules=Rules(strategy="pack"),
        disturbance=Disturbance(network=0.25),
    )
    result = run(made, arrival(job("a", 4), 800.0), arrival(job("b", 4), 320.0))
    on = {name: {stint.node for stint in result.stints if stint.job == name} for name in "ab"}
    assert len(on["a"]) == len(on["b"]) == 2 and len(on["a"] & on["b"]) == 1
    assert (of(result, "b").ended, of(result, "a").ended) == (100.0, 220.0)


# Nodes


def test_a_lost_node_sends_its_job_back_to_its_last_checkpoint() -> None:
    """a (8 workers, 8 per s) has done 480 of 800 at 60 and last saved at 50: 400. n1 is away until 100;
    then the other 400 take 50 s."""
    made = setting(
        Fifo(),
        pauses=replace(FREE, checkpoint=50.0),
        incidents=(NodeLost("n1", 60.0), NodeReturned("n1", 100.0)),
    )
    record = of(run(made, arrival(job("a", 8), 800.0)), "a")
    assert (record.ended, record.failures) == (150.0, 1)
    assert record.lost == 8 * 10.0
    assert record.held == 8 * (60.0 + 50.0)


def test_a_gang_that_is_still_whole_goes_on_smaller() -> None:
    """8 workers on both nodes, gang of 4: from 60 on half of them, all saved: 480 of 800 done, 320 at 4
    per s: 140."""
    made = setting(
        script((0.0, {"a": 8})), pauses=replace(FREE, checkpoint=0.0), incidents=(NodeLost("n1", 60.0),)
    )
    record = of(run(made, arrival(job("a", 4, most=8), 800.0)), "a")
    assert (record.ended, record.failures, record.lost) == (140.0, 1, 0.0)


@pytest.mark.parametrize(("lost", "ended"), [("n0", 160.0), ("n1", 155.0)])
def test_a_node_lost_while_a_move_is_under_way(lost: str, ended: float) -> None:
    """A migration to another type ordered at 50 takes until 60; at 55 one of the two nodes goes. The
    job runs on the other type; it ends, once, and nothing is lost on the way but work."""
    on = mixed((1, node_set("a", devices=4)), (1, node_set("b", device_type="V100", devices=4)))
    policy = script(
        (0.0, {"j": {"workers": 2, "device_type": "A100"}}),
        (50.0, {"j": {"workers": 2, "device_type": "V100"}}),
        (56.0, {"j": {"workers": 2, "device_type": "V100" if lost == "n0" else "A100"}}),
    )
    made = setting(policy, on, pauses=replace(FREE, release=10.0), incidents=(NodeLost(lost, 55.0),))
    result = run(made, arrival(job("j", 2), 200.0))
    record = of(result, "j")
    # Checkpoints are ten minutes apart: nothing was saved, all 200 are done again at 2 per s: from 60
    # on, when the move is done, or from 55 on, where it stays.
    assert (record.fate, record.failures, record.ended) == (Fate.DONE, 1, ended)


def test_a_draining_node_keeps_what_it_has_and_takes_nothing() -> None:
    made = setting(Fifo(), incidents=(NodeDraining("n0", 10.0), NodeDraining("n1", 10.0)))
    jobs = arrival(job("a", 4)), arrival(job("b", 4)), arrival(job("c"), at=20.0)
    result = run(replace(made, until=500.0), *jobs)
    assert {of(result, name).ended for name in "ab"} == {25.0}
    assert of(result, "c").fate is Fate.UNFINISHED


def test_a_node_that_is_added_is_used_and_opens_the_gate() -> None:
    """Twelve workers never fit on two nodes of four; from 50 on there are three."""
    on = cluster(2, node_set(devices=4))
    third = Node("n2", "a", "r0", "d0", 0b1111, 32_000, 256 * 10**9)
    made = setting(Fifo(), on, incidents=(NodeAdded(third, 50.0),))
    jobs = arrival(job("early", 12), 120.0), arrival(job("late", 12), 120.0, at=60.0)
    result = run(made, *jobs)
    assert of(result, "early").fate is Fate.REFUSED
    assert (of(result, "late").fate, of(result, "late").ended) == (Fate.DONE, 70.0)
    assert any(stint.node == "n2" for stint in result.stints)


def test_incidents_happen_in_order_of_time_whatever_their_order_in_the_setting() -> None:
    late_first = (NodeReturned("n0", 40.0), NodeLost("n0", 10.0))
    on = cluster(1, node_set(devices=4))
    made = setting(Fifo(), on, incidents=late_first, pauses=replace(FREE, checkpoint=0.0))
    assert of(run(made, arrival(job("j"))), "j").ended == 10.0 + 30.0 + 90.0


# The same again


def world() -> tuple[Arrival, ...]:
    return tuple(
        arrival(
            job(f"j{i}", 1 + i % 3, most=4 + i % 3, restarts=i % 2 == 0), 150.0 + 40 * i, at=35.0 * i
        )
        for i in range(8)
    )


@pytest.mark.parametrize("name", POLICIES)
def test_recorded_views_give_the_same_decisions_again(name: str) -> None:
    made = setting(POLICIES[name], pauses=Pauses(start=5.0, release=0.0))
    memory = Memory()
    kept: list[tuple[View, float, Memory, Decisions]] = []
    for frame in Engine(made, world()).frames():
        kept.append((frame.before, frame.now, memory, frame.decided))
        memory = frame.decided.memory
    assert len(kept) > 8
    for view, now, before, decided in kept:
        cycle = Cycle(made.policy, explain=False)
        assert cycle.decide(view, now, before) == decided
        thawed, remembered = pickle.loads(pickle.dumps((view, before)))
        assert bare(decide(made.policy, thawed, now, remembered)) == bare(decided)


def bare(decided: Decisions) -> list[Decision]:
    """The decisions with the code of their reason only; of waits without: explained, they say more."""
    codes = (Code.WAITING_POLICY if e.kind is Kind.WAIT else e.reason.code for e in decided.decisions)
    return [replace(e, reason=Reason(code)) for e, code in zip(decided.decisions, codes, strict=True)]


@pytest.mark.parametrize("name", POLICIES)
def test_explaining_changes_reasons_and_nothing_else(name: str) -> None:
    made = setting(POLICIES[name])
    plain, told = (frames(replace(made, explain=each), *world()) for each in (False, True))
    assert [(f.now, bare(f.decided)) for f in plain] == [(f.now, bare(f.decided)) for f in told]


@dataclass(slots=True)
class Notes(Oracle):
    """Writes down what it is shown."""

    steps: list[tuple[str, float]] = field(default_factory=list)

    def watch(self, job: Job, crew: Held, shown: StepReport, done: float) -> None:
        self.steps.append((job.name, shown.step))


def measured(seed: int, noise: float) -> list[tuple[str, float]]:
    notes = Notes()
    policy = replace(script((0.0, {"j": 2})), informed=True)
    made = setting(policy, seed=seed, noise=noise, beliefs=lambda: notes)
    frames(made, arrival(job("j", 2)), arrival(job("k"), at=20.0), arrival(job("l"), at=30.0))
    return notes.steps


def test_what_is_measured_is_noisy_by_its_seed_and_without_noise_the_truth() -> None:
    """Two workers do 2 per s: a step of one unit takes half a second. Shown once for each pace."""
    assert measured(0, 0.0) == [("j", 0.5)]
    assert measured(1, 0.1) == measured(1, 0.1)
    assert measured(1, 0.1) != measured(2, 0.1)


def test_the_seed_changes_what_is_measured_and_nothing_else() -> None:
    made = setting(POLICIES["srtf"])
    assert run(made, *world()).records == run(replace(made, seed=7), *world()).records
