"""Links that lie: whatever was reported, the truth is back after a bounded number of reports."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle.cycle_state import Rules
from muster.perf.history.hops import KEPT, Hops, HopSeen, odd
from muster.perf.wires import LinkClass, Wire, prior
from muster.policy.published.fifo import Fifo
from muster.sim.engine import Engine
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed
from tests.builders import cluster, job, node_set
from tests.unit.sim.scripted import setting

EVERY = settings(max_examples=60, deadline=None, derandomize=True, database=None)
CLAIMED = prior(cluster(), LinkClass(Wire.NIC, "a")).bandwidth
BACK = KEPT // 2 + 1
"""True reports of each hop after which nothing is left of any lie."""


def rounds(hops: Hops, speeds: list[float], count: int, at: float, lie: float = 1.0) -> None:
    """Reports of a ring over all nodes, `lie` times what is true."""
    names = [f"n{i}" for i in range(len(speeds))]
    for _ in range(count):
        for i, source in enumerate(names):
            other = (i + 1) % len(names)
            rate = CLAIMED * min(speeds[i], speeds[other]) * lie
            hops.add(HopSeen(source, names[other], rate, at))


@EVERY
@given(st.integers(3, 9), st.data(), st.sampled_from([0.1, 10.0]), st.integers(1, 3 * KEPT))
def test_lies_by_a_factor_of_ten_are_gone_after_a_few_true_reports(
    nodes: int, data: st.DataObject, lie: float, lies: int
) -> None:
    speeds = [1.0] * nodes
    speeds[data.draw(st.integers(0, nodes - 1))] = data.draw(st.sampled_from([1.0, 0.5, 0.1]))
    hops, there = Hops(), cluster(nodes)
    rounds(hops, speeds, lies, 0.0, lie)
    rounds(hops, speeds, BACK, 60.0)
    known = hops.nodes(there, 60.0)
    for i, speed in enumerate(speeds):
        assert abs(known[f"n{i}"].rate / CLAIMED - speed) <= 0.1 * speed
    assert set(odd(known, there)) == {f"n{i}" for i, speed in enumerate(speeds) if speed < 0.7}


@EVERY
@given(st.integers(0, 2**32), st.floats(0.0, 0.4))
def test_lies_that_are_fewer_than_half_do_nothing(seed: int, share: float) -> None:
    draw, hops, there = Random(seed), Hops(), cluster(5)
    for _ in range(40):
        rounds(hops, [1.0] * 5, 1, 0.0)
    for i in range(5):  # of the reports that are kept of each hop, this share at most are lies
        for _ in range(int(share * KEPT)):
            hops.add(HopSeen(f"n{i}", f"n{(i + 1) % 5}", CLAIMED * draw.choice([0.1, 10.0]), 0.0))
    assert odd(hops.nodes(there, 0.0), there) == {}


@settings(EVERY, max_examples=10)
@given(st.integers(0, 3), st.sampled_from([1.0, 0.1]), st.integers(0, 3), st.sampled_from([0.1, 10.0]))
def test_throughput_is_back_after_a_bounded_number_of_jobs(
    slow: int, part: float, victim: int, lie: float
) -> None:
    """Four nodes, of which one may be slow, and lies about one of them. Jobs over all nodes report what
    is true; after as many as it takes, a job over two of them is as fast as it can be."""
    made = setting(
        Fifo(),
        cluster(4, node_set(devices=1)),
        rules=Rules(strategy="pack"),
        steady=True,
        true_links={f"n{slow}": part},
        noise=0.02,
    )
    over_all = [Arrival(1000.0 * i, job(f"a{i}", 4), Fixed(100.0, 4)) for i in range(BACK)]
    last = Arrival(1000.0 * BACK, job("last", 2), Fixed(100.0, 2))
    engine = Engine(made, (*over_all, last))
    for other in {0, 1, 2, 3} - {victim}:
        for _ in range(KEPT):
            for hop in ((f"n{victim}", f"n{other}"), (f"n{other}", f"n{victim}")):
                engine.crossings.hops.add(HopSeen(*hop, CLAIMED * lie, 0.0))
    for _ in engine.frames():
        pass
    (took,) = [at - life.submitted for life, at in engine.ended if life.job.name == "last"]
    assert took == pytest.approx(100.0, rel=0.1)
