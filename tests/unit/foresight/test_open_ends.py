"""Jobs that a world was not played to the end of."""

from itertools import islice

import pytest

from muster.foresight.open_ends import left_open
from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.beliefs import Oracle
from muster.sim.engine import Engine, Setting
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed
from tests.builders import cluster, job


def _cut(policy: str, lengths: list[float]) -> Engine:
    """Jobs that each need the whole cluster, after the first cycle."""
    machines = cluster(1)
    pools = single_pool(machines.devices_by_type())
    setting = Setting(machines, pools, POLICIES[policy], beliefs=Oracle)
    arrivals = [
        Arrival(0.0, job(f"j{n}", 8, number=n), Fixed(seconds, 8))
        for n, seconds in enumerate(lengths, 1)
    ]
    engine = Engine(setting, arrivals)
    for _ in islice(engine.frames(), 1):
        pass
    return engine


def test_who_waits_starts_after_those_before_it() -> None:
    found = left_open(_cut("fifo", [1000.0, 500.0, 200.0]), [1, 2, 3])
    assert [found[n].finish for n in (1, 2, 3)] == pytest.approx([1000.0, 1500.0, 1700.0], rel=0.05)
    assert found[3].start == pytest.approx(found[2].finish)


def test_the_shortest_comes_first_where_the_policy_knows_lengths() -> None:
    found = left_open(_cut("srtf", [200.0, 5000.0, 900.0]), [2, 3])
    assert found[3].finish == pytest.approx(1100.0, rel=0.05)
    assert found[2].start == pytest.approx(found[3].finish)


def test_nothing_is_said_of_jobs_that_nobody_asked_about() -> None:
    assert left_open(_cut("fifo", [10.0, 10.0]), []) == {}
