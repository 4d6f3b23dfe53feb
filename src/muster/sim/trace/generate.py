"""Traces made up by rule: jobs by a generator's name, parameters and seed, each time the same.

Every generator is a function of its parameters (a frozen dataclass) and a seed; `GENERATORS` names
them, and `spec.py` reads them as people write them. Moments, sizes and run times come from streams of
their own, so that changing one parameter (the rate, say) leaves the other draws as they were.
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
from muster.sim.truth import Arrival, Truth

HOUR = 3600.0

EXPONENT = 0.8
"""Speed-up k^p of elastic jobs: between the 0.69 and 0.89 that heSRPT's authors show of parallel
programs."""

ONE = Sizes((1,), (1.0,))
GAVEL_SIZES = Sizes((1, 2, 4, 8), (0.70, 0.10, 0.15, 0.05))
"""Gavel's mix, after Philly."""
GAVEL_DURATIONS = Mixture(
    LogUniform(60 * 10**1.5, 60 * 10**3), LogUniform(60 * 10**3, 60 * 10**4), probability=0.8
)
"""Gavel's: 60 · 10^U(1.5, 3) s for four jobs in five, 60 · 10^U(3, 4) s for the fifth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What all streams of jobs have in common."""

    jobs: int = 1000
    load: float = 0.8
    """Devices asked for on average, as a part of `capacity`."""
    capacity: int = 64
    """Devices that the load is a part of."""
    rate: float | None = None
    """Jobs an hour, in place of a load."""
    sizes: Sizes = ONE
    elastic: int = 1
    """A job of n devices can use up to so many times n."""
    exponent: float = EXPONENT
    """Speed-up p of elastic jobs."""
    spread: float = 0.0
    """By how much of itself a step is longer for each node beyond the fewest."""
    node: int = 8
    """Devices of a node, which says how few are enough."""
    users: int = 1
    pools: int = 1

    def per_second(self, durations: Durations) -> float:
        """Arrivals a second: load · capacity / (mean devices · mean run time); they are independent."""
        if self.rate is not None:
            return self.rate / HOUR
        return self.load * self.capacity / (self.sizes.mean * durations.mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonJobs(Stream):
    """Jobs at random moments, of exponential run times."""

    mean: float = HOUR
    """Of the run times, s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhillyLike(Stream):
    """Gavel's generator of jobs like Philly's."""

    sizes: Sizes = GAVEL_SIZES


@dataclass(frozen=True, slots=True, kw_only=True)
class Diurnal(PhillyLike):
    """The same jobs, more by day than by night."""

    swing: float = 0.5
    """By which part of itself the rate rises by day and falls by night."""
    peak: float = 14 * HOUR
    """When most come, s after midnight, which is when the trace begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyTail(PhillyLike):
    """Jobs of which few take most of the time."""

    shape: float = 1.1
    """Of the tail: processes were measured near 1 (Harchol-Balter and Downey 1997); with 1.1 and these
    bounds the longest hundredth of the jobs holds about half of the time."""
    shortest: float = 60.0
    longest: float = 30 * 24 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimusJobs:
    """Optimus' nine job types, synchronous or not at random, for its 13 nodes."""

    jobs: int = 60
    """As many as its published code draws."""
    window: float = 12_000.0
    """They arrive within so many s, evenly."""
    most: int = 10
    """Workers, and servers, at the most: its code tries 1 to 10."""
    low: float = 0.01
    high: float = 0.05
    """Thresholds of convergence are drawn between these."""
    longest: float = 6 * HOUR
    """s alone on one worker and one server; the data set of a longer job is cut, as the authors did to
    end within hours."""
    on: str = "gpu"
    """Containers: gpu or cpu."""


@dataclass(frozen=True, slots=True)
class Generator:
    """A way to make a trace up."""

    parameters: type[Any]
    make: Callable[[Any, int], Iterator[Arrival]]
    about: str


def poisson(parameters: PoissonJobs, seed: int) -> Iterator[Arrival]:
    """Arrivals at random, exponential run times."""
    durations = Exponential(parameters.mean)
    moments = steady(_stream(seed, "moments"), parameters.per_second(durations))
    return _jobs("poisson", parameters, seed, moments, durations)


def philly_like(parameters: PhillyLike, seed: int) -> Iterator[Arrival]:
    """Gavel's jobs: sizes 1 to 8, run times over three orders of magnitude, arrivals at random."""
    moments = steady(_stream(seed, "moments"), parameters.per_second(GAVEL_DURATIONS))
    return _jobs("philly-like", parameters, seed, moments, GAVEL_DURATIONS)


def diurnal(parameters: Diurnal, seed: int) -> Iterator[Arrival]:
    """Gavel's jobs, arriving by the hour of the day."""
    rate = parameters.per_second(GAVEL_DURATIONS)
    moments = daily(_stream(seed, "moments"), rate, parameters.swing, parameters.peak)
    return _jobs("diurnal", parameters, seed, moments, GAVEL_DURATIONS)


def heavy_tail(parameters: HeavyTail, seed: int) -> Iterator[Arrival]:
    """Run times of a bounded Pareto distribution, arrivals at random."""
    durations = BoundedPareto(parameters.shape, parameters.shortest, parameters.longest)
    moments = steady(_stream(seed, "moments"), parameters.per_second(durations))
    return _jobs("heavy-tail", parameters, seed, moments, durations)


def optimus(parameters: OptimusJobs, seed: int) -> Iterator[Arrival]:
    """The nine types; what they are made of is imported here, for it needs SciPy."""
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
    """Numbers of their own for each purpose. A text seeds by its SHA-512, alike in every process."""
    return Random(f"{seed}/{what}")


def _jobs(
    name: str, parameters: Stream, seed: int, moments: Iterator[float], durations: Durations
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
        yield Arrival(moment, job, _truth(parameters, counts, durations.draw(lengths)))


def _truth(parameters: Stream, counts: Counts, duration: float) -> Truth:
    return truth_of(counts, duration, parameters.exponent, parameters.spread, parameters.node)
