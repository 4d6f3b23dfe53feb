"""The contenders of the claims' benchmarks are what their tables say."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from muster.model.job import Job, Role
from muster.model.pool import Entitlements
from muster.model.topology import Level
from muster.model.view import JobState
from muster.planner.counts import plan_for
from muster.sim.trace.open_trace import TraceOptions, open_trace
from muster.sim.truth import Arrival
from muster.sim.worlds.curves import Curves
from muster.sim.worlds.power import PowerLaw
from tests.builders import cluster, job, node_set, running, view
from tests.builders import placement as at
from tests.numbers import name_of

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> object:
    """Modules as the benchmarks themselves import them."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in [each for each in sys.modules if each.split(".")[0] == "support"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module


def module(load: object, name: str) -> ModuleType:
    assert callable(load)
    found = load(name)
    assert isinstance(found, ModuleType)
    return found


def jobs_of(trace: str) -> list[Arrival]:
    return list(open_trace(trace, TraceOptions(seed=3)))


# Static shares


def started(load: object, jobs: list[Job | JobState]) -> dict[str, int]:
    """What an eight-device cluster's jobs start with."""
    policy = module(load, "support.sim_static").StaticShare()
    seen = view(cluster(1, node_set(devices=8)), jobs)
    devices = {"A100": 8}
    entitled = Entitlements({("default", "A100"): 8}, devices)
    shares = policy.allocate(seen, entitled, 0.0, None)
    assert shares.steers
    return {name_of(each.job): each.most for each in shares.allocations}


def test_those_who_start_together_share_equally(load: object) -> None:
    # 8 devices / 2 jobs
    assert started(load, [job("a", 1, most=8), job("b", 1, most=8)]) == {"a": 4, "b": 4}


def test_nobody_gets_more_than_the_most_it_can_use(load: object) -> None:
    assert started(load, [job("a", 1, most=3)]) == {"a": 3}


def test_who_runs_keeps_its_share_and_the_next_gets_what_is_free(load: object) -> None:
    early = running(job("early", 1, most=8), at(*(("n0", 1 << i) for i in range(6))))
    # 8 / 3 jobs, rounded down, is 2: the first to wait gets the last two, the other waits on.
    late: list[Job | JobState] = [early, job("late", 1, most=8), job("later", 1, most=8)]
    assert started(load, late) == {"late": 2}


# The same jobs for everybody


def test_static_and_dynamic_jobs_differ_in_what_they_may_have_and_in_nothing_else(load: object) -> None:
    sharing = module(load, "sim_sharing")
    spec = sharing.Case("poisson", "light", "three types", jobs=20).spec
    for arrival in jobs_of(spec):
        fixed, free = sharing.as_asked(1.0, arrival, 0), sharing.from_one(1.0, arrival, 0)
        asked = arrival.job.workers.gang
        assert (fixed.job.workers.gang, fixed.job.workers.most) == (asked, asked)
        assert (free.job.workers.gang, free.job.workers.most) == (1, 4 * asked)
        assert fixed.truth == free.truth
        assert fixed.at == free.at


def test_a_type_is_faster_by_at_most_its_rating(load: object) -> None:
    sharing = module(load, "sim_sharing")
    (arrival,) = jobs_of("poisson:jobs=1,elastic=4")
    truth = sharing.from_one(1.0, arrival, 0).truth
    assert isinstance(truth, PowerLaw)
    factors = truth.speed.factors
    assert factors["P100"] == 1.0
    assert 1.0 <= factors["V100"] <= 15.7 / 10.6  # rated TFLOP/s
    assert 2.8 / 10.6 <= factors["K80"] <= 1.0


# Optimus' setting


def test_the_control_has_three_servers_for_every_worker(load: object) -> None:
    optimus = module(load, "sim_optimus")
    for arrival in jobs_of("optimus:jobs=3"):
        changed = optimus.more_servers(arrival, 0).job
        assert changed.restarts
        for workers in range(1, 11):
            plan = plan_for(changed, workers)
            assert (plan.count(Role.WORKER), plan.count(Role.SERVER)) == (workers, 3 * workers)


def test_in_step_servers_change_nothing(load: object) -> None:
    optimus = module(load, "sim_optimus")
    (arrival,) = jobs_of("optimus:jobs=1")
    assert isinstance(arrival.truth, Curves)
    speed = arrival.truth.speed
    assert optimus.InStep(speed).rate("", 2, 7) == speed.rate("", 2, 2)


# Xiao's setting


def test_gangs_must_have_a_node_or_a_rack_and_one_device_may_be_anywhere(load: object) -> None:
    placing = module(load, "sim_placement")
    (arrival,) = jobs_of("poisson:jobs=1,sizes=1:1")
    assert placing.contracted(arrival, 0).job.locality.widest is Level.CLUSTER
    for devices, widest in ((4, Level.NODE), (8, Level.NODE), (16, Level.RACK)):
        (arrival,) = jobs_of(f"poisson:jobs=1,sizes={devices}:1")
        assert placing.contracted(arrival, 0).job.locality.widest is widest


def test_a_loss_of_speed_of_two_fifths_makes_steps_two_thirds_longer(load: object) -> None:
    case = module(load, "sim_placement").Case("light", "CNTK")
    # 1 / (1 - 0.4) - 1 = 2/3; half of it below one socket, a quarter in one node
    disturbance = case.disturbance()
    assert disturbance.switch == pytest.approx(2 / 3)
    assert disturbance.socket == pytest.approx(1 / 3)
    assert disturbance.node == pytest.approx(1 / 6)


def test_racks_are_filled_in_order_and_all_devices_are_free(load: object) -> None:
    built = module(load, "support.sim_clusters").cluster_of("c", {"V100": 3, "K80": 2}, per_rack=4)
    assert [node.rack for node in built.nodes] == ["r0"] * 4 + ["r1"]
    assert built.devices_by_type()["V100"] == 24 and built.devices_by_type()["K80"] == 16
    assert all(node.free == 0xFF for node in built.nodes)
