"""Worlds of finish-time fairness: 120 rigid jobs of 1 to 8 devices that come to 32 within a few hours.

Sizes, lengths and arrivals are of the kind that Themis (NSDI'20), Gavel (OSDI'20) and Shockwave
(NSDI'23) are measured with: most jobs short and small, a few of several hours, all of them submitted in
the first part of the time that the cluster needs for them. As in Pollux' workloads (OSDI'21), which
theirs are drawn after, an application is small, medium, large or very large; its jobs take about as
long as each other. No published trace is among them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log
from random import Random

from muster.model.cluster import Cluster
from muster.model.job import Job
from muster.sim.trace.draw import Sizes
from muster.sim.trace.generate import GAVEL_SIZES, HOUR
from muster.sim.trace.roles import workers
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed
from support.sim_clusters import cluster_of

JOBS = 120
DEVICES = 32
SIZES = {
    "small": Sizes((1, 2, 4, 8), (0.60, 0.30, 0.09, 0.01)),
    "gavel": GAVEL_SIZES,
    "wide": Sizes((1, 2, 4, 8), (0.40, 0.30, 0.20, 0.10)),
}
GAPS = (30.0, 60.0, 120.0)
"""Mean s between two submissions."""
SHORTEST, LONGEST = 0.2 * HOUR, 5 * HOUR
CLASSES = ((0.72, 0.0, 0.2, 7), (0.20, 0.2, 0.5, 4), (0.05, 0.5, 0.9, 3), (0.03, 0.9, 1.0, 2))
"""Part of the jobs, the lengths between these parts of the range, and applications of each class."""
ALIKE = 0.3
"""Standard deviation of the logarithm of a length within an application."""
PAUSE = 30.0


@dataclass(frozen=True, slots=True)
class FairWorld:
    """A cluster and the jobs that come to it."""

    seed: int
    cluster: Cluster
    sizes: str
    lengths: str
    gap: float
    arrivals: tuple[Arrival, ...]


def drawn(seed: int, jobs: int = JOBS, *, declared: bool) -> FairWorld:
    """Draw the jobs; `declared`: whether each says how long it takes."""
    random = Random(f"fair/{seed}")
    sizes, lengths = random.choice(list(SIZES)), random.choice(("classes", "log-uniform"))
    gap = random.choice(GAPS)
    moments = accumulate((random.expovariate(1 / gap) for _ in range(jobs - 1)), initial=0.0)
    usual = list(_applications(random, lengths))
    weights = [part for part, _ in usual]
    arrivals = []
    for number, at in enumerate(moments, 1):
        (kind,) = random.choices(range(len(usual)), weights)
        seconds = usual[kind][1] * random.lognormvariate(0.0, ALIKE)
        seconds = min(LONGEST, max(SHORTEST, seconds))
        count = SIZES[sizes].draw(random)
        job = Job(
            name=f"job-{number}",
            roles=workers(count, count),
            number=number,
            application=f"application-{kind}",
            duration=seconds if declared else None,
            pause=PAUSE,
        )
        arrivals.append(Arrival(at, job, Fixed(seconds, count)))
    cluster = cluster_of("fair", {"V100": DEVICES // 8})
    return FairWorld(seed, cluster, sizes, lengths, gap, tuple(arrivals))


def _applications(random: Random, lengths: str) -> Iterator[tuple[float, float]]:
    """Yield each application's part of the jobs and usual length."""
    for part, low, high, count in CLASSES:
        for _ in range(count):
            if lengths == "classes":
                yield part / count, SHORTEST + (LONGEST - SHORTEST) * random.uniform(low, high)
            else:
                yield 1.0, exp(random.uniform(log(SHORTEST), log(LONGEST)))
