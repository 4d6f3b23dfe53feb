"""Generated traces: deterministic in a generator's name, parameters and seed.

Every generator is a function of its parameters (a frozen dataclass) and a seed; `GENERATORS` names
them, and `spec.py` parses them. Moments, sizes and run times come from separate streams, so that
changing one parameter (the rate, say) keeps the other draws.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from random import Random
from typing import Any

from muster.files.source.quantity import Counts
from muster.model.job import Job
from muster.sim.trace.columns import truth_of
from muster.sim.trace.draw import (
    BoundedPareto,
    Durations,
    Exponential,
    LogUniform,
    Mixture,
    Sizes,
    daily,
    steady,
)
from muster.sim.trace.roles import workers
from muster.sim.truth import Arrival

HOUR = 3600.0

EXPONENT = 0.8
"""Speed-up k^p of elastic jobs: heSRPT's authors show 0.69 to 0.89 for parallel programs."""

ONE = Sizes((1,), (1.0,))
GAVEL_SIZES = Sizes((1, 2, 4, 8), (0.70, 0.10, 0.15, 0.05))
"""Gavel's mix, after Philly."""
GAVEL_DURATIONS = Mixture(
    LogUniform(60 * 10**1.5, 60 * 10**3), LogUniform(60 * 10**3, 60 * 10**4), probability=0.8
)
"""Gavel's: 60 · 10^U(1.5, 3) s for four jobs in five, 60 · 10^U(3, 4) s for the fifth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStream:
    """The common parameters of all generators but Optimus'."""

    jobs: int = 1000
    load: float = 0.8
    """Mean devices asked for, as a part of `capacity`."""
    capacity: int = 64
    """Devices that the load is a part of."""
    rate: float | None = None
    """Jobs an hour, instead of a load."""
    sizes: Sizes = ONE
    elastic: int = 1
    """A job of n devices can use up to this many times n."""
    exponent: float = EXPONENT
    """Speed-up p of elastic jobs."""
    spread: float = 0.0
    """Part by which a step is longer for each node beyond the fewest."""
    node: int = 8
    """Devices of a node, which gives the fewest nodes."""
    users: int = 1
    pools: int = 1

    def per_second(self, durations: Durations) -> float:
        """Return arrivals a second: load · capacity / (mean devices · mean run time)."""
        if self.rate is not None:
            return self.rate / HOUR
        return self.load * self.capacity / (self.sizes.mean * durations.mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonJobs(JobStream):
    """Jobs at random moments, of exponential run times."""

    mean: float = HOUR
    """Mean run time, s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhillyLike(JobStream):
    """Gavel's generator of jobs like Philly's."""

    sizes: Sizes = GAVEL_SIZES


@dataclass(frozen=True, slots=True, kw_only=True)
class Diurnal(PhillyLike):
    """The same jobs, more by day than by night."""

    swing: float = 0.5
    """Part by which the rate rises by day and falls by night."""
    peak: float = 14 * HOUR
    """The busiest time, s after midnight, when the trace begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyTail(PhillyLike):
    """A few jobs take most of the time."""

    shape: float = 1.1
    """Of the tail: processes were measured near 1 (Harchol-Balter and Downey 1997); with 1.1 and these
    bounds the longest 1 % of the jobs takes about half of the time."""
    shortest: float = 60.0
    longest: float = 30 * 24 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimusJobs:
    """Optimus' nine job types, synchronous or not at random, for its 13 nodes."""

    jobs: int = 60
    """As many as its published code draws."""
    window: float = 12_000.0
    """Arrivals are uniform within this many s."""
    most: int = 10
    """Most workers, and most servers: its code tries 1 to 10."""
    low: float = 0.01
    high: float = 0.05
    """Convergence thresholds are drawn between these."""
    longest: float = 6 * HOUR
    """s alone on one worker and one server; the data set of a longer job is cut, as the authors did."""
    on: str = "gpu"
    """Containers: gpu or cpu."""


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator of traces."""

    parameters: type[Any]
    make: Callable[[Any, int], Iterator[Arrival]]
    about: str


def poisson(parameters: PoissonJobs, seed: int) -> Iterator[Arrival]:
    """Generate Poisson arrivals with exponential run times."""
    durations = Exponential(parameters.mean)
    moments = steady(_stream(seed, "moments"), parameters.per_second(durations))
    return _jobs("poisson", parameters, seed, moments, durations)


def philly_like(parameters: PhillyLike, seed: int) -> Iterator[Arrival]:
    """Generate Gavel's jobs: sizes 1 to 8, run times over three orders of magnitude."""
    moments = steady(_stream(seed, "moments"), parameters.per_second(GAVEL_DURATIONS))
    return _jobs("philly-like", parameters, seed, moments, GAVEL_DURATIONS)


def diurnal(parameters: Diurnal, seed: int) -> Iterator[Arrival]:
    """Generate Gavel's jobs, arriving by the hour of the day."""
    rate = parameters.per_second(GAVEL_DURATIONS)
    moments = daily(_stream(seed, "moments"), rate, parameters.swing, parameters.peak)
    return _jobs("diurnal", parameters, seed, moments, GAVEL_DURATIONS)


def heavy_tail(parameters: HeavyTail, seed: int) -> Iterator[Arrival]:
    """Generate run times of a bounded Pareto distribution."""
    durations = BoundedPareto(parameters.shape, parameters.shortest, parameters.longest)
    moments = steady(_stream(seed, "moments"), parameters.per_second(durations))
    return _jobs("heavy-tail", parameters, seed, moments, durations)


def optimus(parameters: OptimusJobs, seed: int) -> Iterator[Arrival]:
    """Generate the nine types; imported here because they need SciPy."""
    from muster.sim.trace.optimus import optimus_jobs

    return optimus_jobs(parameters, seed)


GENERATORS: Mapping[str, Generator] = {
    "optimus": Generator(OptimusJobs, optimus, "Optimus' nine job types within 12,000 s"),
    "philly-like": Generator(PhillyLike, philly_like, "Gavel's jobs like Philly's"),
    "poisson": Generator(PoissonJobs, poisson, "random moments, exponential run times"),
    "diurnal": Generator(Diurnal, diurnal, "Gavel's jobs, more by day than by night"),
    "heavy-tail": Generator(HeavyTail, heavy_tail, "few jobs take most of the time"),
}


def _stream(seed: int, what: str) -> Random:
    """Return a stream for each purpose; a text seeds by its SHA-512, equal in every process."""
    return Random(f"{seed}/{what}")


def _jobs(
    name: str, parameters: JobStream, seed: int, moments: Iterator[float], durations: Durations
) -> Iterator[Arrival]:
    sizes, lengths, owners = (_stream(seed, what) for what in ("sizes", "durations", "owners"))
    for number, moment in zip(count(1), islice(moments, parameters.jobs)):
        least = parameters.sizes.draw(sizes)
        counts = Counts(least, least * parameters.elastic)
        job = Job(
            name=f"{name}-{number}",
            user=f"u{owners.randint(1, parameters.users)}",
            pool=f"p{owners.randint(1, parameters.pools)}" if parameters.pools > 1 else "default",
            roles=workers(counts.least, counts.most),
            number=number,
        )
        took = durations.draw(lengths)
        truth = truth_of(counts, took, parameters.exponent, parameters.spread, parameters.node)
        yield Arrival(moment, job, truth)
