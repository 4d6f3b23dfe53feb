"""The form of `step_form` and its derivatives in plain numbers, for a fit to a handful of samples.

A call of NumPy takes ten times as long as the arithmetic on one of them: here it is called only for
exponentials and logarithms, of all samples at once. Each operation is the one of `step_form.times`, in
its order, so that both give the same to the last digit.
"""

from collections.abc import Sequence
from math import exp, inf, log, log1p
from typing import NamedTuple

import numpy as np

from muster.perf.speed.step_form import SHARPNESS, Array, Arrays, Reference, powers_of


class PlainSetting(NamedTuple):
    """One of `Arrays`' settings; see there."""

    batch: float
    others: float
    """d - 1."""
    doublings: float
    ring: float
    hops: float
    lag: float
    inside: bool
    pair: bool

    @staticmethod
    def all_of(at: Arrays) -> "list[PlainSetting]":
        """Return the settings one by one."""
        columns = (at.batch, at.widest - 1, at.doublings, at.ring, at.hops, at.lag, at.inside, at.pair)
        return [PlainSetting(*each) for each in zip(*(c.tolist() for c in columns), strict=True)]


class _Terms(NamedTuple):
    """What the times of a setting are made of."""

    at: PlainSetting
    growing: float
    shared: float
    alone: float
    spread: float
    exchange: float
    """C in units of r net; 0 on a single device, which has nothing to synchronise."""


class PlainTimes(NamedTuple):
    """Log T and log g of each setting, and what their derivatives are made of."""

    step: list[float]
    compute: list[float]
    powers: Sequence[float]
    terms: list[_Terms]
    parts: list[tuple[float, float, float, float]]
    """T, g, the waiting for the slowest, and the longer of hidden and exposed."""
    covers: list[float]
    """Logarithm of the part of that which computing covers."""


class PlainSlopes(NamedTuple):
    """Derivatives of one setting: see `step_form.Times`."""

    step_by: tuple[float, ...]
    compute_by: tuple[float, float, float]
    """By a, c and kappa; the others do not count."""
    by_compute: float
    by_sync: float


def plain_times(
    unknowns: Array,
    at: Sequence[PlainSetting],
    unit: Reference,
    computing: Sequence[float],
    sync: Sequence[float],
) -> PlainTimes:
    """Return log times where g is e^computing and C is e^sync times the form's."""
    powers, count = powers_of(unknowns), len(at)
    phi = powers[7]
    terms = [_terms(powers, each, unit) for each in at]
    logs = _logs(powers, terms, unit)
    log_compute = [a + b for a, b in zip(logs[:count], computing, strict=True)]
    hidden = [SHARPNESS * (logs[-1] + each) for each in log_compute]
    exposed = [SHARPNESS * (a + b) for a, b in zip(logs[count:-1], sync, strict=True)]
    together = [_logaddexp(a, b) for a, b in zip(hidden, exposed, strict=True)]
    times: list[float] = np.exp([*log_compute, *(each / SHARPNESS for each in together)]).tolist()
    parts = []
    for each, compute, longer in zip(terms, times[:count], times[count:], strict=True):
        waits = powers[8] * each.at.doublings * compute
        parts.append(((1 - phi) * compute + waits + longer, compute, waits, longer))
    steps: list[float] = np.log([step for step, *_ in parts]).tolist()
    covers = [a - b for a, b in zip(hidden, together, strict=True)]
    return PlainTimes(steps, log_compute, powers, terms, parts, covers)


def plain_slopes(found: PlainTimes) -> list[PlainSlopes]:
    """Return the derivatives of each setting."""
    covered: list[float] = np.exp(found.covers).tolist()
    every = zip(found.terms, found.parts, covered, strict=True)
    return [_slopes(found.powers, *each) for each in every]


def _terms(powers: Sequence[float], at: PlainSetting, unit: Reference) -> _Terms:
    growing, shared, latency = powers[1] * at.batch / unit.batch, powers[2] * at.others, powers[5]
    spread = (1 - latency) * at.ring + latency * at.hops
    paired = powers[6] if at.pair else 1.0
    exchange = powers[3] * at.ring if at.inside else spread * paired
    return _Terms(at, growing, shared, powers[0] + growing, spread, exchange)


def _logs(powers: Sequence[float], terms: Sequence[_Terms], unit: Reference) -> list[float]:
    """Return log g of each setting, log C of each, and log phi."""
    computing = [unit.seconds * each.alone * (1 + each.shared) for each in terms]
    sync = [unit.seconds * powers[4] * each.exchange for each in terms]
    # Nothing to synchronise: log C = -inf, of which NumPy would warn.
    found: list[float] = np.log([*computing, *(each or 1.0 for each in sync), powers[7]]).tolist()
    for i, each in enumerate(sync, len(terms)):
        found[i] = found[i] if each else -inf
    return found


def _logaddexp(a: float, b: float) -> float:
    """Return log(e^a + e^b) as NumPy does."""
    if a == b:
        return a + log(2.0)
    return a + log1p(exp(b - a)) if a > b else b + log1p(exp(a - b))


def _slopes(
    powers: Sequence[float],
    terms: _Terms,
    parts: tuple[float, float, float, float],
    covered: float,
) -> PlainSlopes:
    at, alone, latency, phi = terms.at, terms.alone, powers[5], powers[7]
    step, compute, waits, longer = parts
    hides = longer * covered
    by_compute = ((1 - phi) * compute + waits + hides) / step
    by_sync = longer * (1 - covered) / step
    compute_by = powers[0] / alone, terms.growing / alone, terms.shared / (1 + terms.shared)
    delayed = latency * (1 - latency) * at.lag / (1.0 if at.inside else terms.spread)
    step_by = (
        *[by_compute * each for each in compute_by],
        by_sync * at.inside,
        by_sync,
        by_sync * delayed,
        by_sync * at.pair,
        (hides - phi * compute) * (1 - phi) / step,
        waits / step,
    )
    return PlainSlopes(step_by, compute_by, by_compute, by_sync)
