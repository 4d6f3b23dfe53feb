"""Links learnt from history (KAIST, seed 001): latency and bandwidth of each class, with intervals.

A transfer of x bytes takes t = latency + x / bandwidth. Observations of all jobs are fitted by
non-negative least squares on relative errors; later ones weigh more, outliers are weighted down by
Huber's rule, and the cluster file counts as one more observation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import exp, isfinite, log, sqrt

import numpy as np
from numpy.typing import NDArray

from muster.model.cluster import Cluster
from muster.model.topology import Link
from muster.perf.estimate import BadMeasurementError, Estimate, Unknown, WhyUnknown
from muster.perf.wires import LinkClass

HALF_LIFE = 6 * 3600.0
"""Seconds after which an observation counts half: cables, switches and their other users change over
hours, not minutes."""
PRIOR_WEIGHT = 1.0
"""Weight of the cluster file against one fresh observation."""
PRIOR_SPREAD = 1.3
"""80 % of links are within this factor of their rated bandwidth."""
WORST_SPREAD = 3.0
"""Widest interval, as a factor: observations that contradict each other more say nothing."""
STRAGGLER = 0.15
"""Relative error from which an observation is weighted down."""
FIRST = 1e-4
"""Part of the rating's weight in the first round: enough to settle what observations leave open."""
ROUNDS = 5
"""Reweighting rounds; weights have settled by then."""
LEAST_LATENCY = 1e-5
"""Seconds assumed for a link whose rating says 0."""
KEPT = 200
"""Observations kept of each class."""
Z80 = 1.2816
"""Half the width of an 80 % interval in standard deviations."""


@dataclass(frozen=True, slots=True)
class Carried:
    """An observation: a link of this class carried `bytes` in `seconds`, at a time in s."""

    link: LinkClass
    bytes: float
    seconds: float
    at: float = 0.0

    def __post_init__(self) -> None:
        fine = isfinite(self.bytes) and isfinite(self.seconds) and isfinite(self.at)
        if not (fine and self.bytes >= 0 and self.seconds > 0):
            raise BadMeasurementError(f"impossible: {self.bytes} bytes in {self.seconds} s")


@dataclass(frozen=True, slots=True)
class LinkEstimate:
    """Bandwidth in bytes/s and latency in s, each with its interval."""

    bandwidth: Estimate
    latency: Estimate

    @property
    def spread(self) -> float:
        """The factor within which the bandwidth is right."""
        return max(self.bandwidth.high / self.bandwidth.mean, self.bandwidth.mean / self.bandwidth.low)


@dataclass(frozen=True, slots=True)
class LinkHistory:
    """Transfers of all jobs, the latest last."""

    observed: tuple[Carried, ...] = ()
    nodes: Mapping[str, float] = field(default_factory=dict)
    """Bytes/s of nodes whose link differs from that of their class."""

    def and_also(self, more: Iterable[Carried]) -> "LinkHistory":
        """Return the history with more observations; of each class only the latest are kept."""
        every = sorted((*self.observed, *more), key=lambda carried: carried.at)
        room: dict[LinkClass, int] = {}
        kept = []
        for carried in reversed(every):
            room[carried.link] = room.get(carried.link, KEPT) - 1
            if room[carried.link] >= 0:
                kept.append(carried)
        return LinkHistory(tuple(reversed(kept)), self.nodes)

    def of(self, link: LinkClass) -> list[Carried]:
        return [carried for carried in self.observed if carried.link == link]


def with_own_links(cluster: Cluster, nodes: Mapping[str, float]) -> Cluster:
    """Return the cluster with nodes of a class of their own where their link's bytes/s differ."""
    kinds, found = dict(cluster.configurations), list(cluster.nodes)
    for name, rate in nodes.items():
        if name not in cluster.index:
            continue
        node = cluster.node(name)
        kind = cluster.configuration_of(node)
        own = f"{kind.name}@{name}"
        kinds[own] = replace(kind, name=own, nic=Link(rate, kind.nic.latency))
        found[cluster.index[name]] = replace(node, configuration=own)
    return replace(cluster, configurations=kinds, nodes=tuple(found)) if nodes else cluster


def learn(rated: Link, observed: list[Carried]) -> LinkEstimate | Unknown:
    """Estimate a link from its rating and its observed transfers."""
    if not rated.bandwidth > 0 or not isfinite(rated.bandwidth):
        return Unknown(
            WhyUnknown.NO_BANDWIDTH, f"a link has a bandwidth of {rated.bandwidth:g} bytes/s"
        )
    if not observed:
        return _rated(rated)
    weights = _ages(observed)
    rows, aims = _rows(rated, observed, weights)
    solution = _robust(rows, aims)
    return _estimate(rated, solution, rows, aims)


def _rated(rated: Link) -> LinkEstimate:
    bandwidth = Estimate(
        rated.bandwidth, rated.bandwidth / PRIOR_SPREAD, rated.bandwidth * PRIOR_SPREAD
    )
    return LinkEstimate(bandwidth, Estimate(rated.latency, rated.latency / 3, rated.latency * 3))


def _ages(observed: list[Carried]) -> NDArray[np.float64]:
    """Return the weight of each observation; it halves with every half-life before the latest."""
    latest = max(carried.at for carried in observed)
    ages = np.array([latest - carried.at for carried in observed])
    return np.asarray(0.5 ** (ages / HALF_LIFE), dtype=np.float64)


def _rows(
    rated: Link, observed: list[Carried], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the equations for (latency, s/byte), scaled to relative errors, the rating's two last."""
    seconds = np.array([carried.seconds for carried in observed])
    root = np.sqrt(weights)
    rows = np.array([[1.0, carried.bytes] for carried in observed]) * (root / seconds)[:, None]
    scale = 1 / max(rated.latency, LEAST_LATENCY)
    own = sqrt(PRIOR_WEIGHT) * np.array([[scale, 0.0], [0.0, rated.bandwidth]])
    aims = np.concatenate([root, sqrt(PRIOR_WEIGHT) * np.array([scale * rated.latency, 1.0])])
    return np.vstack([rows, own]), aims


def _robust(rows: NDArray[np.float64], aims: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve non-negative least squares, then again with misfits weighted down (Huber 1964).

    The rating hardly counts in the first round, and is later compared with the larger of itself and
    the solution: a link far from its rating must not make its own observations look like outliers.
    """
    from scipy.optimize import nnls  # slow to import, and most commands never fit anything

    rating = 1 / rows[-2:].sum(axis=1)  # of latency and s/byte, each the only entry of its row
    factor = np.ones(len(aims))
    factor[-2:] = FIRST
    for _ in range(ROUNDS):
        solution = nnls(rows * factor[:, None], aims * factor)[0]
        off = np.abs(rows @ solution - aims) / np.maximum(aims, 1e-3)
        shrunk = np.minimum(1.0, rating / np.maximum(solution, 1e-15))
        off[-2:] *= shrunk
        factor = np.sqrt(np.minimum(1.0, STRAGGLER / np.maximum(off, 1e-12)))
        factor[-2:] *= shrunk
    return np.asarray(solution, dtype=np.float64)


def _estimate(
    rated: Link,
    solution: NDArray[np.float64],
    rows: NDArray[np.float64],
    aims: NDArray[np.float64],
) -> LinkEstimate:
    latency, per_byte = float(solution[0]), max(float(solution[1]), 1e-3 / rated.bandwidth)
    off = np.abs(rows @ solution - aims)[:-2]
    sigma = max(0.01, 1.4826 * float(np.median(off)))
    covariance = sigma**2 * np.linalg.pinv(rows.T @ rows)
    spread = exp(min(Z80 * sqrt(max(covariance[1, 1], 0.0)) / per_byte, log(WORST_SPREAD)))
    around = Z80 * sqrt(max(covariance[0, 0], 0.0))
    bandwidth = 1 / per_byte
    return LinkEstimate(
        Estimate(bandwidth, bandwidth / spread, bandwidth * spread),
        Estimate(latency, max(0.0, latency - around), latency + around),
    )
