"""A job whose speed-up is a power of its workers: the form for which optimal shares are known (heSRPT).

With k workers of a device type on n nodes, where m nodes would suffice:

    rate = (k / reference)^p · factor(type) / (1 + spread · (n - m))        [s of work per s]

On devices of several types the factor is their mean: each has a part of the batch that suits it.

A unit of work is one second on `reference` packed workers with devices of factor 1, so `work` is the
run time there. 0 < p <= 1 makes the rate concave in k: every further worker adds less. Each node more
than necessary lengthens every step by the part `spread`, like traffic that leaves a node.
Source of s(k) = k^p: Berg, Vesilo, Harchol-Balter, heSRPT (2020).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, pow

from muster.model.outlook import Outlook
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.sim.truth import Ideal, JobPace, ideal_of


@dataclass(frozen=True, slots=True)
class PowerSpeed:
    """rate = (k / reference)^exponent · factor(type), for packed workers."""

    reference: int = 1
    exponent: float = 1.0
    factors: Mapping[str, float] = field(default_factory=dict)
    """Relative speed of device types; 1 for others."""

    def __post_init__(self) -> None:
        if not (self.reference >= 1 and 0 < self.exponent <= 1):
            raise ValueError(f"not a concave speed-up: {self}")

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        if workers < 1:
            return 0.0
        return pow(workers / self.reference, self.exponent) * self.factors.get(device_type, 1.0)

    def batch(self, device_type: str, workers: int) -> int | None:
        return None


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """A job with a power-law speed."""

    work: float
    """s on the reference workers."""
    speed: PowerSpeed = PowerSpeed()
    spread: float = 0.0
    per_node: int | None = None
    """Workers of a node, which gives the fewest nodes; None: one node."""

    def pace(self, crew: Held, done: float) -> JobPace:
        return JobPace(self._rate(crew))

    def shown(self, crew: Held, done: float) -> StepReport:
        rate = self._rate(crew)  # a step is one second's work of the reference
        return StepReport(step=1 / rate if rate else inf)

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        rates = {k: self.speed.rate(device_type, k) for k in range(fewest, most + 1)}
        return ideal_of({k: self.work / rate if rate else inf for k, rate in rates.items()})

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        here = None if crew is None else self._rate(crew)
        return Outlook(max(0.0, self.work - done), self.speed, here=here)

    def _rate(self, crew: Held) -> float:
        workers = crew.workers
        fewest = 1 if self.per_node is None else -(-workers // self.per_node)
        extra = max(0, len(crew.shape) - fewest)
        rate = self.speed.rate(crew.device_type, workers)
        if crew.beside:
            rates = (n * self.speed.rate(each, workers) for each, n in crew.by_type.items())
            rate = sum(rates) / workers
        return rate / (1 + self.spread * extra)
