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
from math import log, log2

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NAMES = ("a", "c", "kappa", "local", "net", "lambda", "rho", "phi", "omega")
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

    @staticmethod
    def of(settings: Sequence[StepSetting]) -> "Arrays":
        rows = [(len(s.shape), s.devices, max(s.shape), s.batch) for s in settings]
        return Arrays(*np.array(rows, dtype=np.float64).T)


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


def times(unknowns: Array, at: Arrays, unit: Reference, computing: Array, sync: Array) -> Times:
    """Return log times where g is e^computing and C is e^sync times the form's."""
    log_compute, compute_by = _compute(unknowns, at, unit)
    log_sync, sync_by = _sync(unknowns, at, unit)
    log_compute, log_sync = log_compute + computing, log_sync + sync
    compute, phi = np.exp(log_compute), _share(unknowns[7])
    waits = np.exp(unknowns[8]) * np.log2(at.devices) * compute
    hidden = SHARPNESS * (np.log(phi) + log_compute)
    together = np.logaddexp(hidden, SHARPNESS * log_sync)
    longer = np.exp(together / SHARPNESS)
    covered = np.exp(hidden - together)
    step = (1 - phi) * compute + waits + longer
    by_compute = ((1 - phi) * compute + waits + longer * covered) / step
    by_sync = longer * (1 - covered) / step
    step_by = by_compute[:, None] * compute_by + by_sync[:, None] * sync_by
    step_by[:, 7] = (longer * covered - phi * compute) * (1 - phi) / step
    step_by[:, 8] = waits / step
    return Times(np.log(step), log_compute, step_by, compute_by, by_compute, by_sync)


def _compute(unknowns: Array, at: Arrays, unit: Reference) -> tuple[Array, Array]:
    """Return log g and its derivatives."""
    fixed, growing = np.exp(unknowns[0]), np.exp(unknowns[1]) * at.batch / unit.batch
    shared = np.exp(unknowns[2]) * (at.widest - 1)
    by = np.zeros((len(at.batch), len(NAMES)))
    by[:, 0] = fixed / (fixed + growing)
    by[:, 1] = growing / (fixed + growing)
    by[:, 2] = shared / (1 + shared)
    return np.log(unit.seconds * (fixed + growing) * (1 + shared)), by


def _sync(unknowns: Array, at: Arrays, unit: Reference) -> tuple[Array, Array]:
    """Return log C and its derivatives; a single device has nothing to synchronise, log C = -inf."""
    ring = 2 * (at.devices - 1) / at.devices / RING_8
    hops, latency = (at.nodes - 1) / 3, _share(unknowns[5])
    inside, pair = at.nodes == 1, at.nodes == 2
    spread = (1 - latency) * ring + latency * hops
    form = np.where(
        inside, np.exp(unknowns[3]) * ring, spread * np.where(pair, np.exp(unknowns[6]), 1.0)
    )
    by = np.zeros((len(ring), len(NAMES)))
    by[:, 3] = inside
    by[:, 4] = 1.0
    across = ~inside
    by[across, 5] = latency * (1 - latency) * (hops - ring)[across] / spread[across]
    by[:, 6] = pair
    logs = np.full(len(ring), -np.inf)
    np.log(unit.seconds * np.exp(unknowns[4]) * form, out=logs, where=form > 0)
    return logs, by


def _share(logit: float) -> float:
    """Return the share, between 0 and 1, of a logit."""
    return float(1 / (1 + np.exp(-logit)))
