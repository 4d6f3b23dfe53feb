"""Small clusters and bursts of rigid jobs of which next to nothing is known, drawn by a seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from muster.model.cluster import Cluster
from muster.model.job import Job
from muster.sim.trace.draw import BoundedPareto, Durations, Exponential, LogUniform, Sizes
from muster.sim.trace.generate import GAVEL_SIZES, HOUR
from muster.sim.trace.roles import workers
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed
from support.sim_clusters import cluster_of

NODES = (1, 2, 4, 8)
"""Of eight devices each."""
SIZES = {
    "gavel": GAVEL_SIZES,
    "even": Sizes((1, 2, 4, 8), (1.0, 1.0, 1.0, 1.0)),
    "any": Sizes((1, 2, 3, 4, 5, 6, 7, 8), (1.0,) * 8),
    "small": Sizes((1, 2, 4), (0.5, 0.3, 0.2)),
}
LENGTHS: dict[str, Durations] = {
    "pareto": BoundedPareto(1.1, 120.0, 8 * HOUR),
    "log-uniform": LogUniform(60.0, 4 * HOUR),
    "exponential": Exponential(0.5 * HOUR),
}
ALIKE = 0.5
"""Standard deviation of the logarithm of a length within an application."""


@dataclass(frozen=True, slots=True)
class RigidTrace:
    """One drawn world."""

    seed: int
    cluster: Cluster
    sizes: str
    lengths: str
    load: float
    burst: int
    """Mean jobs that come together."""
    repeats: int
    """Mean jobs of an application; 1: each job is its first."""
    arrivals: tuple[Arrival, ...]


def drawn(seed: int) -> RigidTrace:
    """Draw a cluster, and the jobs that come to it."""
    random = Random(f"rigid/{seed}")
    nodes, jobs = random.choice(NODES), random.randint(40, 120)
    sizes, lengths = random.choice(list(SIZES)), random.choice(list(LENGTHS))
    load, burst = random.uniform(0.6, 1.3), random.choice((1, 4, 12, 40))
    repeats = random.choice((1, 3))
    asked = [SIZES[sizes].draw(random) for _ in range(jobs)]
    named = [random.randrange(max(1, jobs // repeats)) if repeats > 1 else i for i in range(jobs)]
    usual = [LENGTHS[lengths].draw(random) for _ in range(jobs)]
    took = [usual[name] * (random.lognormvariate(0.0, ALIKE) if repeats > 1 else 1.0) for name in named]
    work = sum(count * seconds for count, seconds in zip(asked, took, strict=True))
    moments = _bursts(random, jobs, burst, work / (8 * nodes * load))
    arrivals = tuple(
        Arrival(at, _job(i, count, name), Fixed(seconds, count))
        for i, (at, count, seconds, name) in enumerate(zip(moments, asked, took, named, strict=True))
    )
    cluster = cluster_of("rigid", {"P100": nodes})
    return RigidTrace(seed, cluster, sizes, lengths, load, burst, repeats, arrivals)


def _job(number: int, devices: int, application: int) -> Job:
    return Job(
        name=f"job-{number}",
        roles=workers(devices, devices),
        number=number + 1,
        application=f"application-{application}",
    )


def _bursts(random: Random, jobs: int, burst: int, window: float) -> Iterator[float]:
    """Yield moments in order: bursts at random, jobs of a burst some seconds apart."""
    gaps = [random.expovariate(1.0) if random.random() < 1 / burst else 0.0 for _ in range(jobs - 1)]
    whole = sum(gaps) or 1.0
    seconds = (random.expovariate(1 / 5.0) + window * gap / whole for gap in gaps)
    return accumulate(seconds, initial=0.0)
