"""Jobs that a world was not played to the end of."""

from dataclasses import replace
from itertools import islice
from math import inf
from typing import Any

import pytest

from muster.foresight.open_ends import left_open
from muster.model.event import NodeLost
from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.beliefs import Oracle
from muster.sim.engine import Engine, Setting
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed
from tests.builders import cluster, job


def _engine(policy: str, lengths: list[float], **options: Any) -> Engine:
    """Jobs that each need the whole cluster."""
    machines = cluster(1)
    pools = single_pool(machines.devices_by_type())
    setting = Setting(machines, pools, POLICIES[policy], beliefs=Oracle, **options)
    arrivals = [
        Arrival(0.0, job(f"j{n}", 8, number=n), Fixed(seconds, 8))
        for n, seconds in enumerate(lengths, 1)
    ]
    return Engine(setting, arrivals)


def _cut(policy: str, lengths: list[float]) -> Engine:
    """The same, after the first cycle."""
    engine = _engine(policy, lengths)
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


def test_a_job_that_has_run_ends_although_its_node_is_lost_at_the_horizon() -> None:
    lost = (NodeLost("n0", 90.0),)
    engine = _engine("fifo", [1000.0, 500.0], incidents=lost, until=100.0)
    for _ in engine.frames():
        pass
    found = left_open(engine, [1, 2])
    assert 1000.0 < found[1].finish < 1200.0
    assert found[2].start == found[2].finish == inf  # it has never run


def test_nothing_is_said_of_jobs_that_nobody_asked_about() -> None:
    assert left_open(_cut("fifo", [10.0, 10.0]), []) == {}


def test_who_may_not_start_yet_keeps_nobody_else() -> None:
    engine = _cut("fifo", [1000.0, 500.0, 200.0])
    late = replace(engine.view.jobs[2], not_before=50_000.0)
    engine.view = replace(engine.view, jobs={**engine.view.jobs, 2: late})
    found = left_open(engine, [2, 3])
    assert found[3].start == pytest.approx(1000.0, rel=0.05)
    assert found[2].start == 50_000.0
