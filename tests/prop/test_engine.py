"""Whatever the world and whichever the policy: nothing is held twice, no work is lost, all is told."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle.cycle import Cycle, Memory
from muster.model.cluster import Cluster
from muster.model.event import NodeDraining, NodeEvent, NodeLost, NodeReturned
from muster.model.pool import PoolTree
from muster.policy.base import Policy
from muster.policy.registry import POLICIES
from muster.sim.disturbance import Disturbance
from muster.sim.engine import Engine, Setting
from muster.sim.executor import Pauses
from muster.sim.result import Fate, Result, Stint
from muster.sim.scenario.run import simulate
from muster.sim.truth import Arrival
from muster.sim.worlds.power import PowerLaw, PowerSpeed
from tests.prop.worlds import clusters, jobs, pool_trees

SOME = settings(max_examples=4, deadline=None, derandomize=True, database=None)
LONG = 500_000.0
"""s: far beyond what any of these worlds needs."""


@dataclass(frozen=True, slots=True)
class Play:
    """A world, and how it is run."""

    cluster: Cluster
    pools: PoolTree
    arrivals: tuple[Arrival, ...]
    pauses: Pauses
    rounds: bool
    incidents: tuple[NodeEvent, ...]
    disturbance: Disturbance

    def setting(self, policy: Policy) -> Setting:
        return Setting(
            self.cluster,
            self.pools,
            policy,
            pauses=self.pauses,
            rounds=self.rounds,
            incidents=self.incidents,
            disturbance=self.disturbance,
            until=LONG,
        )


@st.composite
def plays(draw: st.DrawFn, *, troubled: bool) -> Play:
    cluster = draw(clusters())
    pools = draw(pool_trees(cluster))
    drawn = draw(st.lists(jobs(cluster, pools), min_size=1, max_size=10))
    random = Random(draw(st.integers(0, 2**16)))
    factors = {each: random.choice((0.5, 1.0, 3.0)) for each in cluster.device_types()}
    restarts = draw(st.booleans())
    arrivals = []
    for i, made in enumerate(drawn):
        job = made(f"j{i}")
        job = replace(job, restarts=restarts and random.random() < 0.5)
        speed = PowerSpeed(job.workers.gang, random.choice((0.5, 0.8, 1.0)), factors)
        truth = PowerLaw(random.choice((10.0, 100.0, 1000.0)), speed, spread=0.1, per_node=4)
        arrivals.append(Arrival(random.choice((0.0, 30.0, 60.0, 100.0 * i)), job, truth))
    arrivals.sort(key=lambda each: each.at)
    return Play(
        cluster,
        pools,
        tuple(arrivals),
        draw(st.sampled_from((Pauses(), Pauses(30.0, 1.0, 20.0, 5.0, 60.0), Pauses(0.0, 0.0, 0.0)))),
        draw(st.booleans()),
        tuple(_incidents(cluster, random)) if troubled else (),
        Disturbance(network=0.2, node=0.1) if troubled else Disturbance(),
    )


def _incidents(cluster: Cluster, random: Random) -> Iterator[NodeEvent]:
    """Each node goes away, or drains, up to three times, and always comes back."""
    for node in cluster.nodes:
        at = 0.0
        for _ in range(random.randrange(4)):
            at += random.choice((7.0, 60.0, 333.0))
            yield random.choice((NodeLost, NodeLost, NodeDraining))(node.name, at)
            at += random.choice((5.0, 60.0, 500.0))
            yield NodeReturned(node.name, at)


def refuse_overlaps(stints: tuple[Stint, ...]) -> None:
    """No device is held by two at a time."""
    by_node: dict[str, list[Stint]] = {}
    for stint in stints:
        assert stint.bits and stint.end > stint.begin
        by_node.setdefault(stint.node, []).append(stint)
    for held in by_node.values():
        for device in range(16):
            mine = sorted((s.begin, s.end) for s in held if s.bits >> device & 1)
            assert all(one[1] <= other[0] for one, other in pairwise(mine))


def refuse_bad_figures(result: Result, play: Play) -> None:
    """What was held is what the stints say, and all that ended did all its work."""
    for record in result.records:
        mine = [stint for stint in result.stints if stint.job == record.name]
        held = sum(s.bits.bit_count() * (s.end - s.begin) for s in mine)
        assert record.held == pytest.approx(held)
        assert -1e-6 <= record.lost <= record.held + 1e-6
        assert -1e-6 <= record.paused <= record.run + 1e-6
        if record.fate is Fate.DONE:
            assert record.ended is not None and record.started is not None
            assert record.submitted <= record.started <= record.ended
            assert record.ended - record.submitted >= record.best - 1e-6
            assert record.held - record.lost >= record.least - 1e-6
    for sample in result.samples:
        assert 0 <= sample.used <= sample.capacity


@pytest.mark.parametrize("name", POLICIES)
@given(play=plays(troubled=False))
@SOME
def test_in_a_quiet_world_every_job_that_can_run_does(name: str, play: Play) -> None:
    result = simulate(play.setting(POLICIES[name]), play.arrivals, stints=True)
    refuse_overlaps(result.stints)
    refuse_bad_figures(result, play)
    left = [record.name for record in result.records if record.fate is Fate.UNFINISHED]
    assert not left, (left, result.notes)


@pytest.mark.parametrize("name", POLICIES)
@given(play=plays(troubled=True))
@SOME
def test_in_a_troubled_world_nothing_breaks(name: str, play: Play) -> None:
    result = simulate(play.setting(POLICIES[name]), play.arrivals, stints=True)
    refuse_overlaps(result.stints)
    refuse_bad_figures(result, play)
    unfinished = sum(record.fate is Fate.UNFINISHED for record in result.records)
    assert unfinished == sum(int(n.split()[1][:-1]) for n in result.notes if n.startswith("unfinished"))


@pytest.mark.parametrize("name", POLICIES)
@given(play=plays(troubled=True))
@SOME
def test_a_cycle_made_afresh_decides_the_same(name: str, play: Play) -> None:
    memory = Memory()
    for count, frame in enumerate(Engine(play.setting(POLICIES[name]), play.arrivals).frames()):
        if count % 5 == 0:
            fresh = Cycle(POLICIES[name], explain=False)
            assert fresh.decide(frame.before, frame.now, memory) == frame.decided
        memory = frame.decided.memory
        if count > 200:
            break
