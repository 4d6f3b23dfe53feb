"""A simulation that begins in the middle goes on as the one that it was taken from."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from muster.model.event import NodeLost, NodeReturned
from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.engine import Engine, Setting
from muster.sim.trace.open_trace import TraceOptions, open_trace
from muster.sim.truth import Arrival
from tests.builders import cluster

TRACE = "philly-like:jobs=10,load=1.5,capacity=16,elastic=2"


def _setting(policy: str) -> Setting:
    nodes = cluster(2)
    lost = (NodeLost(nodes.nodes[0].name, 4000.0), NodeReturned(nodes.nodes[0].name, 9000.0))
    return Setting(nodes, single_pool(nodes.devices_by_type()), POLICIES[policy], incidents=lost)


def _ends(engine: Engine) -> dict[int, float]:
    for _ in engine.frames():
        pass
    return {life.job.number: at for life, at in engine.ended}


def _split(setting: Setting, arrivals: list[Arrival], cycles: int) -> dict[int, float]:
    """Simulate some cycles, take the present, and go on from it in another engine."""
    first = Engine(setting, arrivals)
    for _, _ in zip(range(cycles), first.frames(), strict=False):
        pass
    midway = first.midway()
    later = [each for each in arrivals if each.at > midway.now]
    incidents = tuple(each for each in setting.incidents if each.at > midway.now)
    again = Engine(
        Setting(setting.cluster, setting.pools, setting.policy, incidents=incidents), later, midway
    )
    done = {life.job.number: at for life, at in first.ended}
    return done | _ends(again)


@pytest.mark.parametrize("policy", ["fifo", "srtf", "muster", "drf"])
@settings(max_examples=3, deadline=None)
@given(seed=some.integers(0, 50), cycles=some.integers(0, 60))
def test_the_rest_is_the_same(policy: str, seed: int, cycles: int) -> None:
    """Every job ends when it would have ended."""
    setting = _setting(policy)
    arrivals = list(open_trace(TRACE, TraceOptions(seed=seed)))
    whole = _ends(Engine(setting, arrivals))
    assert len(whole) == len(arrivals)
    assert _split(setting, arrivals, cycles) == pytest.approx(whole, rel=1e-9)
