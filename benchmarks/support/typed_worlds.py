"""Worlds of three device types: 24 T4, 24 RTX and 16 A100, and jobs that are faster on some of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

from muster.model.cluster import Cluster
from muster.model.job import Job
from muster.sim.trace.draw import LogUniform, steady
from muster.sim.trace.generate import GAVEL_SIZES
from muster.sim.trace.roles import workers
from muster.sim.truth import Arrival
from muster.sim.worlds.power import PowerLaw, PowerSpeed
from support.sim_clusters import cluster_of

NODES = {"T4": 3, "RTX": 3, "A100": 2}
"""Of eight devices each."""
WORLDS = {"flat": (1.1, 1.4), "usual": (2.2, 4.0), "steep": (3.0, 8.0)}
"""Times that an RTX and an A100 are as fast as a T4."""
LOADS = (0.5, 1.2)
JOBS = 120
APPLICATIONS = 12
LENGTHS = LogUniform(300.0, 12 * 3600.0)
"""s alone on T4."""
ALIKE = 0.3
"""Standard deviation of the logarithm of a length within an application."""
ELASTIC, EXPONENT = 4, 0.8
"""An elastic job uses up to this many times what it asks for, at this power."""


@dataclass(frozen=True, slots=True)
class TypedWorld:
    """A cluster and the jobs that come to it."""

    cluster: Cluster
    arrivals: tuple[Arrival, ...]


def drawn(
    world: str,
    load: float,
    seed: int,
    jobs: int,
    *,
    elastic: bool,
    order: Sequence[str] = (),
    mix: bool = False,
) -> TypedWorld:
    """Draw the jobs; `order`: of the types in the cluster file; `mix`: a job may have several types."""
    rtx, a100 = WORLDS[world]
    factors = {"T4": 1.0, "RTX": rtx, "A100": a100}
    random = Random(f"types/{seed}")
    usual = [LENGTHS.draw(random) for _ in range(APPLICATIONS)]
    named = [random.randrange(APPLICATIONS) for _ in range(jobs)]
    alone = [usual[name] * random.lognormvariate(0.0, ALIKE) for name in named]
    asked = [GAVEL_SIZES.draw(random) for _ in range(jobs)]
    work = sum(s * count ** (1 - EXPONENT) for count, s in zip(asked, alone, strict=True))
    power = sum(8 * count * factors[each] for each, count in NODES.items())
    moments = islice(steady(random, jobs * load * power / work), jobs)
    arrivals = tuple(
        _arrival(i, *each, factors, elastic=elastic, mix=mix)
        for i, each in enumerate(zip(moments, asked, alone, named, strict=True), 1)
    )
    return TypedWorld(_listed(cluster_of("types", NODES), order or tuple(NODES)), arrivals)


def _listed(cluster: Cluster, order: Sequence[str]) -> Cluster:
    """Return the same nodes in the same racks, listed in this order of their types."""
    nodes = sorted(cluster.nodes, key=lambda node: order.index(node.configuration))
    sets = {each: cluster.configurations[each] for each in order}
    return replace(cluster, configurations=sets, nodes=tuple(nodes))


def _arrival(
    number: int,
    at: float,
    asked: int,
    alone: float,
    application: int,
    factors: Mapping[str, float],
    *,
    elastic: bool,
    mix: bool,
) -> Arrival:
    most = min(asked * ELASTIC, 16) if elastic else asked
    job = Job(
        name=f"job-{number}",
        roles=workers(asked, most),
        number=number,
        application=f"application-{application}",
        spans=mix,
    )
    # In s on one T4: jobs of an application have alike work and steps, whatever they ask for.
    return Arrival(at, job, PowerLaw(alone, PowerSpeed(1, EXPONENT, factors), per_node=8))
