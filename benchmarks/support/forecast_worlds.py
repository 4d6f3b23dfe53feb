"""Workloads to be forecast: where the jobs come from, and what happens to the nodes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

from muster.core.cycle.cycle_state import Rules
from muster.files.cluster.cluster_file import load_cluster
from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.engine import Setting
from muster.sim.learnt import Learnt
from muster.sim.scenario.configuration import Failures
from muster.sim.scenario.incidents import drawn
from muster.sim.trace.open_trace import TraceOptions, open_trace
from muster.sim.trace.philly import read_philly
from muster.sim.truth import Arrival
from support.sim_clusters import cluster_of
from support.sim_runs import OWN
from support.t4_cluster import CLUSTER, Case, learnt
from support.t4_cluster import arrivals as t4_arrivals

PHILLY = Path(__file__).resolve().parents[3] / "shared" / "data" / "philly.csv"
NODES = 8
"""Of eight devices each."""
BURST = 12
"""Mean jobs that come together."""
KNOWN = 100
"""Jobs before a crowd."""
FAILURES = Failures(mtbf=2 * 86_400.0, repair=2 * 3600.0)


@dataclass(frozen=True, slots=True)
class World:
    """A setting and the jobs that come."""

    name: str
    setting: Setting
    arrivals: tuple[Arrival, ...]


def t4(jobs: int, seed: int) -> World:
    """One of the four workloads by the seed, live resizes, learnt beliefs."""
    case, loaded = (
        Case(oracle=False, pause=1.0, rounds=False, strategy="pack", seed=seed),
        load_cluster(CLUSTER),
    )
    setting = Setting(
        loaded.cluster,
        loaded.pools,
        POLICIES[OWN],
        Rules(strategy="pack"),
        beliefs=lambda: learnt(case),
        seed=seed,
    )
    return World("t4", setting, tuple(islice(t4_arrivals(1 + seed % 4, case), jobs)))


def philly(jobs: int, seed: int) -> World:
    """A stretch of the second half of Philly, which nothing was tuned on, in its busiest cluster."""
    every = list(read_philly(PHILLY))
    half = every[len(every) // 2 :]
    pools = [each.job.pool for each in half]
    busiest = sorted(set(pools), key=pools.count)[-1 - seed % 3]
    found = [each for each in half if each.job.pool == busiest and each.job.workers.gang <= 64]
    begin = (seed // 3) * jobs
    return _rigid("philly", [*_from(found[begin : begin + jobs])], seed)


def _from(arrivals: list[Arrival]) -> Iterator[Arrival]:
    first = arrivals[0].at
    for each in arrivals:
        yield replace(each, at=each.at - first, job=replace(each.job, pool="default"))


def diurnal(jobs: int, seed: int) -> World:
    """Gavel's jobs, many by day and few by night."""
    return _rigid("diurnal", _generated(f"diurnal:jobs={jobs},load=0.85,swing=0.8", seed), seed)


def bursts(jobs: int, seed: int) -> World:
    """The same jobs, a dozen at a time."""
    steady, random = _generated(f"philly-like:jobs={jobs},load=0.85", seed), Random(f"bursts/{seed}")
    moment, found = 0.0, []
    for each in steady:
        moment = each.at if random.random() < 1 / BURST else moment
        found.append(replace(each, at=moment))
    return _rigid("bursts", found, seed)


def failing(jobs: int, seed: int) -> World:
    """The same jobs on nodes of which each fails every two days."""
    world = _rigid("failing", _generated(f"philly-like:jobs={jobs},load=0.7,elastic=2", seed), seed)
    horizon = 3 * world.arrivals[-1].at + 30 * 86_400.0
    incidents = drawn(world.setting.cluster, FAILURES, seed, horizon)
    return replace(world, setting=replace(world.setting, incidents=incidents))


def crowd(jobs: int, seed: int) -> World:
    """A few jobs as of old, then all others within a minute: a question about as many live jobs."""
    every = _generated(f"philly-like:jobs={jobs + KNOWN},load=0.85", seed)
    late = every[KNOWN].at
    found = [each if n < KNOWN else replace(each, at=late + n % 60) for n, each in enumerate(every)]
    return _rigid("crowd", sorted(found, key=lambda each: each.at), seed)


WORLDS: tuple[Callable[[int, int], World], ...] = (t4, philly, diurnal, bursts, failing)


def _generated(trace: str, seed: int) -> list[Arrival]:
    return list(open_trace(f"{trace},capacity={8 * NODES},users=8", TraceOptions(seed=seed)))


def _rigid(name: str, arrivals: list[Arrival], seed: int) -> World:
    """A cluster that the jobs use to a large part."""
    span = arrivals[-1].at - arrivals[0].at
    work = sum(each.truth.work * each.job.workers.gang for each in arrivals if each.truth is not None)
    nodes = max(4, round(work / (0.85 * span) / 8)) if name == "philly" else NODES
    cluster = cluster_of(name, {"P100": nodes})
    setting = Setting(
        cluster,
        single_pool(cluster.devices_by_type()),
        POLICIES[OWN],
        beliefs=partial(Learnt, cluster.node_devices()),
        seed=seed,
    )
    return World(name, setting, tuple(arrivals))
