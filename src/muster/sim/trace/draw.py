"""Distributions of sizes, run times and arrivals, with their means in closed form.

The means turn a load into an arrival rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, exp, log, pi, pow
from random import Random
from typing import Protocol

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Devices a job asks for, each count with its weight."""

    counts: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Devices."""
        whole = sum(self.weights)
        return sum(n * part for n, part in zip(self.counts, self.weights, strict=True)) / whole

    def draw(self, random: Random) -> int:
        return random.choices(self.counts, self.weights)[0]


class Durations(Protocol):
    """A distribution of run times."""

    @property
    def mean(self) -> float:
        """s."""

    def draw(self, random: Random) -> float:
        """Draw one job's run time, s."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """Memoryless: the past of a job says nothing about its future."""

    mean: float

    def draw(self, random: Random) -> float:
        return random.expovariate(1 / self.mean)


@dataclass(frozen=True, slots=True)
class LogUniform:
    """Uniform in the logarithm from `low` to `high` s."""

    low: float
    high: float

    @property
    def mean(self) -> float:
        """(high - low) / ln(high / low)."""
        return (self.high - self.low) / log(self.high / self.low)

    def draw(self, random: Random) -> float:
        return exp(random.uniform(log(self.low), log(self.high)))


@dataclass(frozen=True, slots=True)
class Mixture:
    """With the given probability the first, else the second."""

    first: Durations
    second: Durations
    probability: float

    @property
    def mean(self) -> float:
        return self.probability * self.first.mean + (1 - self.probability) * self.second.mean

    def draw(self, random: Random) -> float:
        return (self.first if random.random() < self.probability else self.second).draw(random)


@dataclass(frozen=True, slots=True)
class BoundedPareto:
    """Heavy tail: P(X > x) falls as x^-shape between `low` and `high` s."""

    shape: float
    low: float
    high: float

    @property
    def mean(self) -> float:
        """With a = shape, L = low, H = high: a L^a (L^(1-a) - H^(1-a)) / ((a - 1) (1 - (L/H)^a))."""
        a, low, high = self.shape, self.low, self.high
        kept = 1 - pow(low / high, a)
        if a == 1:
            return low * log(high / low) / kept
        return a * pow(low, a) * (pow(low, 1 - a) - pow(high, 1 - a)) / ((a - 1) * kept)

    def draw(self, random: Random) -> float:
        """Draw by inversion: x = L (1 - u (1 - (L/H)^a))^(-1/a)."""
        kept = 1 - pow(self.low / self.high, self.shape)
        return min(self.high, self.low * pow(1 - random.random() * kept, -1 / self.shape))


def steady(random: Random, rate: float) -> Iterator[float]:
    """Yield the moments of a Poisson process, `rate` per second."""
    now = 0.0
    while True:
        now += random.expovariate(rate)
        yield now


def even(random: Random, count: int, window: float) -> Iterator[float]:
    """Yield `count` uniform moments of a window in order, without drawing them all first.

    Of n left in the rest of the window, the first comes after the part 1 - u^(1/n) of it.
    """
    now = 0.0
    for left in range(count, 0, -1):
        now += (window - now) * (1 - pow(random.random(), 1 / left))
        yield now


def daily(random: Random, rate: float, swing: float, peak: float) -> Iterator[float]:
    """Yield the moments of a Poisson process with a daily rate, by thinning (Lewis, Shedler 1979).

    rate(t) = rate · (1 + swing · cos(2π (t - peak) / 24 h)): candidates come at the highest rate, and
    each is kept with the probability rate(t) / highest.
    """
    highest = 1 + swing
    for moment in steady(random, rate * highest):
        now = 1 + swing * cos(2 * pi * (moment - peak) / DAY)
        if random.random() * highest < now:
            yield moment
