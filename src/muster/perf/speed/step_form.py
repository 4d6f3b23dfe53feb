"""The form of a placed job's step: computing and synchronising by placement and batch.

K devices on n nodes, at most d on one node, b samples on each device. Seconds of a step:

    T = (1 - phi) g + omega log2(K) g + ((phi g)^s + C^s)^(1/s)                                  [s]

    g = r (a + c b/b0) (1 + kappa (d - 1))                                    computing          [s]
    C = r net local R(K)                                            n = 1     synchronising      [s]
    C = r net ((1 - lambda) R(K) + lambda (n - 1)/3) (rho if n = 2)   n > 1
    R(K) = 2 (K - 1)/K / (2 * 7/8)

- a, c: fixed part and part per batch of computing; r, b0: time and batch of the smallest sample, so
  that all unknowns are pure numbers and one prior suits every job.
- kappa: what each further device of a node costs (they share its cores, memory, PCIe).
- R(K): bytes that a ring all-reduce sends over the slowest link, 2 (K - 1)/K of the gradients
  (Patarasuk and Yuan, 2009), in units of 8 devices; `local` when that link is inside the node.
- lambda: latency's share on 4 nodes; a ring crosses n - 1 links between nodes, one after the other.
- rho: two nodes are one pair of peers, whose flows share what the network grants a pair.
- phi: the part of computing during which gradients can travel; s = 4 rounds the corner between "hidden"
  and "exposed", because gradients become ready in buckets (Pollux' gamma lies in 1-10).
- omega: waiting for the slowest of K devices; the largest of K exponential delays grows with log K.

The unknowns are the logarithms of the positive ones and the logits of the shares (lambda, phi), in the
order of `NAMES`: every value of an unknown is then a possible job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, log2

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

NAMES = ("a", "c", "kappa", "local", "net", "lambda", "rho", "phi", "omega")
A, C, NET = (NAMES.index(name) for name in ("a", "c", "net"))
SHARPNESS = 4.0
"""s above."""
RING_8 = 2 * 7 / 8
"""Part of the gradients that each of 8 devices sends round a ring."""


@dataclass(frozen=True, slots=True)
class StepSetting:
    """The devices on each node, and the samples on each device."""

    shape: tuple[int, ...]
    batch: int

    @property
    def devices(self) -> int:
        return sum(self.shape)

    @property
    def coordinates(self) -> tuple[float, ...]:
        """Its position among others; a unit is a doubling."""
        return (log2(self.devices), log2(len(self.shape)), log2(self.batch))


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """Settings as columns, each of shape (settings,)."""

    nodes: Array
    devices: Array
    widest: Array
    batch: Array
    # What the form needs of them: a fit evaluates it dozens of times at the same settings.
    doublings: Array
    """log2 K."""
    ring: Array
    """R(K)."""
    hops: Array
    """(n - 1)/3."""
    lag: Array
    """hops - R(K) over several nodes, else 0."""
    inside: Flags
    """n = 1."""
    pair: Flags
    """n = 2."""

    @staticmethod
    def of(settings: Sequence[StepSetting]) -> "Arrays":
        rows = [(len(s.shape), s.devices, max(s.shape), s.batch) for s in settings]
        nodes, devices, widest, batch = np.array(rows, dtype=np.float64).T
        ring, hops = 2 * (devices - 1) / devices / RING_8, (nodes - 1) / 3
        inside = nodes == 1
        lag = np.where(inside, 0.0, hops - ring)
        form = np.log2(devices), ring, hops, lag, inside, nodes == 2
        return Arrays(nodes, devices, widest, batch, *form)


@dataclass(frozen=True, slots=True)
class Reference:
    """Units: seconds of computing (r) and batch (b0) of the smallest sample."""

    seconds: float
    batch: float


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Logs of times at n settings, (n,), and their derivatives."""

    step: Array
    compute: Array
    step_by: Array
    """(n, 9): of log T by the unknowns."""
    compute_by: Array
    """(n, 9): of log g by the unknowns."""
    by_compute: Array
    """(n,): of log T by log g."""
    by_sync: Array
    """(n,): of log T by log C."""


@dataclass(frozen=True, slots=True)
class Belief:
    """The prior of an unknown: the middle and one standard deviation."""

    middle: float
    deviation: float


BELIEFS = (
    Belief(log(0.5), 1.5),  # a: half of the smallest step is fixed, within a factor 4.5
    Belief(log(0.5), 1.5),  # c: the other half grows with the batch
    Belief(log(0.05), 1.0),  # kappa: a neighbour on the node costs 5 %, 2 % to 14 %
    Belief(log(0.2), 1.0),  # local: links inside a node are about five times as fast as between nodes
    Belief(0.0, 1.0),  # net: synchronising 8 devices takes as long as the smallest batch, factor e
    Belief(-2.0, 1.0),  # lambda: gradients are large, latency is 12 % on 4 nodes, 5 % to 27 %
    Belief(log(2) / 2, log(2) / 2),  # rho: 1 (no cap for a pair of nodes) to 2 (only the cap counts)
    Belief(0.0, 1.0),  # phi: half of computing, 27 % to 73 %; the backward pass is two thirds of it
    Belief(log(0.03), 1.0),  # omega: each doubling of the devices waits 3 % longer, 1 % to 8 %
)


def in_units_of(beliefs: tuple[Belief, ...], larger: float) -> tuple[Belief, ...]:
    """Return beliefs about the smallest step, r and b0, in units of a batch that is `larger` times b0.

    Computing it takes r (a + c larger): the fixed part is the same s of more."""
    fixed, growing = beliefs[A], beliefs[C]
    whole = log(exp(fixed.middle) + exp(growing.middle) * larger)
    moved = {A: -whole, C: log(larger) - whole, NET: -whole}
    return tuple(
        Belief(belief.middle + moved.get(i, 0.0), belief.deviation) for i, belief in enumerate(beliefs)
    )


def times(unknowns: Array, at: Arrays, unit: Reference, computing: Array, sync: Array) -> Times:
    """Return log times where g is e^computing and C is e^sync times the form's."""
    powers = powers_of(unknowns)
    log_compute, compute_by = _compute(powers, at, unit)
    log_sync, sync_by = _sync(powers, at, unit)
    log_compute = log_compute + computing
    parts = _parts(powers, at, log_compute, log_sync + sync)
    compute, phi, waits, longer, covered, step = parts
    hides = longer * covered
    by_compute = ((1 - phi) * compute + waits + hides) / step
    by_sync = longer * (1 - covered) / step
    # Rows are unknowns: whole rows are written faster than columns.
    step_by = np.empty_like(compute_by)
    step_by[:3] = by_compute * compute_by[:3]
    step_by[3:7] = by_sync * sync_by
    step_by[7] = (hides - phi * compute) * (1 - phi) / step
    step_by[8] = waits / step
    return Times(np.log(step), log_compute, step_by.T, compute_by.T, by_compute, by_sync)


def log_times(
    unknowns: Array, at: Arrays, unit: Reference, computing: Array, sync: Array
) -> tuple[Array, Array]:
    """Return log T and log g as `times` does, without derivatives, which take half of its time."""
    powers = powers_of(unknowns)
    log_compute = _log_compute(powers, at, unit)[0] + computing
    log_sync = _log_sync(powers, at, unit)[0] + sync
    return np.log(_parts(powers, at, log_compute, log_sync)[-1]), log_compute


def powers_of(unknowns: Array) -> list[float]:
    """Return e to each unknown; of a share, whose logit it is, the share. All at once: a call of NumPy
    costs as much as the arithmetic."""
    powers: list[float] = np.exp(unknowns * _SIGNS).tolist()
    for i in _SHARES:
        powers[i] = 1 / (1 + powers[i])
    return powers


_SHARES = (NAMES.index("lambda"), NAMES.index("phi"))
_SIGNS = np.array([-1.0 if i in _SHARES else 1.0 for i in range(len(NAMES))])


def _parts(
    powers: Sequence[float], at: Arrays, log_compute: Array, log_sync: Array
) -> tuple[Array, float, Array, Array, Array, Array]:
    """Return g, phi, the waiting for the slowest, the longer of hidden and exposed, the part of that
    which computing covers, and T."""
    compute, phi = np.exp(log_compute), powers[7]
    waits = powers[8] * at.doublings * compute
    hidden = SHARPNESS * (np.log(phi) + log_compute)
    together = np.logaddexp(hidden, SHARPNESS * log_sync)
    longer = np.exp(together / SHARPNESS)
    covered = np.exp(hidden - together)
    return compute, phi, waits, longer, covered, (1 - phi) * compute + waits + longer


def _log_compute(
    powers: Sequence[float], at: Arrays, unit: Reference
) -> tuple[Array, tuple[Array | float, ...]]:
    """Return log g, and its terms as parts of their sums."""
    fixed, growing = powers[0], powers[1] * at.batch / unit.batch
    shared = powers[2] * (at.widest - 1)
    alone, beside = fixed + growing, 1 + shared
    return np.log(unit.seconds * alone * beside), (fixed, growing, shared, alone, beside)


def _compute(powers: Sequence[float], at: Arrays, unit: Reference) -> tuple[Array, Array]:
    """Return log g and its derivatives by all unknowns."""
    logs, (fixed, growing, shared, alone, beside) = _log_compute(powers, at, unit)
    by = np.zeros((len(NAMES), len(at.batch)))
    by[0] = fixed / alone
    by[1] = growing / alone
    by[2] = shared / beside
    return logs, by


def _log_sync(powers: Sequence[float], at: Arrays, unit: Reference) -> tuple[Array, float, Array]:
    """Return log C, latency's share, and the ring over several nodes; a single device has nothing to
    synchronise, log C = -inf."""
    latency = powers[5]
    spread = (1 - latency) * at.ring + latency * at.hops
    paired = np.where(at.pair, powers[6], 1.0)
    form = np.where(at.inside, powers[3] * at.ring, spread * paired)
    logs = np.full(len(form), -np.inf)
    np.log(unit.seconds * powers[4] * form, out=logs, where=form > 0)
    return logs, latency, spread


def _sync(powers: Sequence[float], at: Arrays, unit: Reference) -> tuple[Array, Array]:
    """Return log C and its derivatives by local, net, lambda and rho."""
    logs, latency, spread = _log_sync(powers, at, unit)
    by = np.empty((4, len(logs)))
    by[0] = at.inside
    by[1] = 1.0
    by[2] = latency * (1 - latency) * at.lag / np.where(at.inside, 1.0, spread)
    by[3] = at.pair
    return logs, by
