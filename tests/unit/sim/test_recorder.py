"""Records and samples: what is written down adds up, and thinning loses no change of the capacity."""

from dataclasses import replace

import pytest

from muster.core.cycle.cycle_state import Rules
from muster.model.cluster import NodeState
from muster.model.event import NodeLost, NodeReturned
from muster.model.view import View
from muster.policy.published.fifo import Fifo
from muster.sim.executor import Pauses
from muster.sim.recorder import SAMPLES, Samples, ideals, refusal
from muster.sim.result import ClusterSample
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed
from muster.sim.worlds.power import PowerLaw, PowerSpeed
from tests.builders import cluster, job, mixed, node_set, placement, running, view
from tests.unit.sim.scripted import FREE, arrival, of, run, script, setting

UP = view(cluster(2, node_set(devices=4)))


def less_one(whole: View) -> View:
    nodes = whole.cluster.nodes
    gone = replace(nodes[1], state=NodeState.LOST, free=0)
    return replace(whole, cluster=replace(whole.cluster, nodes=(nodes[0], gone)))


def test_a_sample_counts_jobs_devices_and_what_is_stranded() -> None:
    """Three of n0's four are held, so one is stranded there; n1 is whole."""
    three = placement(("n0", 1), ("n0", 2), ("n0", 4))
    seen = view(cluster(2, node_set(devices=4)), [running(job("a", 3), three), job("b"), job("c")])
    samples = Samples()
    samples.see(seen, 5.0)
    assert samples.all() == (ClusterSample(5.0, running=1, waiting=2, used=3, capacity=8, stranded=1),)


def test_the_devices_of_a_lost_node_are_no_capacity() -> None:
    samples = Samples()
    samples.see(less_one(UP), 0.0)
    assert samples.all()[0].capacity == 4


def test_of_one_moment_the_last_look_counts() -> None:
    samples = Samples()
    samples.see(UP, 1.0)
    samples.see(less_one(UP), 1.0)
    assert [(s.at, s.capacity) for s in samples.all()] == [(1.0, 4)]


def test_there_are_never_many_more_than_a_screen_can_show() -> None:
    samples = Samples()
    for second in range(10 * SAMPLES):
        samples.see(UP, float(second))
    kept = samples.all()
    assert SAMPLES / 4 < len(kept) <= SAMPLES
    assert [s.at for s in kept] == sorted({s.at for s in kept})
    assert kept[0].at == 0.0


def test_every_change_of_the_capacity_stays() -> None:
    """A node is away for one second in every 1000, and once at the very beginning."""
    samples = Samples()
    changes = []
    for second in range(10 * SAMPLES):
        away, was = (second % 1000 == 7, second % 1000 == 8)
        samples.see(less_one(UP) if away else UP, float(second), away or was)
        if away or was:
            changes.append((float(second), 4 if away else 8))
    kept = samples.all()
    assert set(changes) <= {(s.at, s.capacity) for s in kept}
    assert len(kept) <= SAMPLES


def test_capacity_that_changes_all_the_time_is_kept_all_the_same() -> None:
    samples = Samples()
    for second in range(3 * SAMPLES):
        samples.see(less_one(UP) if second % 2 else UP, float(second), True)
    assert len(samples.all()) == 3 * SAMPLES


def test_a_simulation_samples_the_end_of_each_moment() -> None:
    """Stopped and started at 40: in between all is free, but not at the end of that moment."""
    policy = script((0.0, {"j": 1}), (40.0, {"j": 2}))
    incidents = (NodeLost("n1", 60.0), NodeReturned("n1", 62.0))
    result = run(setting(policy, incidents=incidents), arrival(job("j", 1, most=2, restarts=True)))
    assert [(s.at, s.used, s.capacity) for s in result.samples] == [
        (0.0, 1, 8),
        (40.0, 2, 8),
        (60.0, 2, 4),
        (62.0, 2, 8),
        (70.0, 0, 8),
    ]


def test_inside_a_round_what_ends_and_what_is_lost_is_seen() -> None:
    rules = Rules(strategy="pack")
    made = setting(Fifo(), rules=rules, rounds=True, incidents=(NodeLost("n1", 30.0),))
    result = run(made, arrival(job("a"), 40.0), arrival(job("b"), 130.0))
    seen = [(s.at, s.used, s.capacity) for s in result.samples]
    assert seen[:3] == [(0.0, 2, 8), (30.0, 2, 4), (40.0, 1, 4)]


@pytest.mark.parametrize("release", [0.0, 7.0])
def test_held_is_devices_by_time_and_lost_is_part_of_it(release: float) -> None:
    pauses = Pauses(start=30.0, resize=10.0, migrate=20.0, release=release)
    policy = script(
        (0.0, {"a": 1, "b": 2}), (50.0, {"a": 4, "b": 1}), (90.0, {"a": 0, "b": 4}), (150.0, {"a": 2})
    )
    made = setting(policy, pauses=pauses)
    jobs = [arrival(job(name, 1, most=4), 300.0) for name in "ab"]
    result = run(made, *jobs)
    for record in result.records:
        mine = [stint for stint in result.stints if stint.job == record.name]
        assert record.held == sum(s.bits.bit_count() * (s.end - s.begin) for s in mine)
        assert record.run == sum(s.end - s.begin for s in mine)
        # One unit per device and s that is not lost: what was held and not lost is the work.
        assert record.held - record.lost == pytest.approx(300.0)
        assert 0.0 < record.paused <= record.run


# What would be best


def test_ideals_of_a_power_law() -> None:
    """100 of work at k^0.5: on one 100 s, on four 50 s; 1 x 100 device-s are fewer than 4 x 50."""
    truth = PowerLaw(100.0, PowerSpeed(exponent=0.5))
    assert ideals(job("j", 1, most=4), truth, ("A100",)) == (100.0, 50.0, 100.0)


def test_ideals_are_the_best_of_the_types_allowed() -> None:
    """Twice as fast on V100: 50 s there; forbidden, 100 s."""
    truth = PowerLaw(100.0, PowerSpeed(factors={"V100": 2.0}))
    assert ideals(job("j"), truth, ("A100", "V100")) == (50.0, 50.0, 50.0)
    only = job("j", device_types=("A100",))
    assert ideals(only, truth, ("A100", "V100")) == (100.0, 100.0, 100.0)


def test_ideals_of_a_job_of_which_the_duration_is_all_there_is() -> None:
    asked = job("j", 4, duration=50.0)
    refused = refusal(Arrival(0.0, asked), ("A100",))
    assert (refused.alone, refused.best, refused.least) == (50.0, 50.0, 200.0)
    assert ideals(asked, Fixed(50.0, 4), ("A100",)) == (50.0, 50.0, 200.0)


def test_records_say_what_was_asked_and_what_became_of_it() -> None:
    on = mixed((1, node_set("a", devices=4)), (1, node_set("b", device_type="V100", devices=4)))
    made = setting(Fifo(), on, pauses=FREE)
    asked = job("j", 2, user="ann", application="resnet")
    record = of(run(made, arrival(asked, at=3.0)), "j")
    assert (record.user, record.pool, record.application, record.devices) == (
        "ann",
        "default",
        "resnet",
        2,
    )
    assert (record.submitted, record.started, record.ended) == (3.0, 3.0, 53.0)
    assert (record.alone, record.best, record.least) == (50.0, 50.0, 100.0)
