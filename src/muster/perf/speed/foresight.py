"""A step foretold from a model's shape: the belief about its form before anything was measured.

The form's unknowns are pure numbers, in units of the computing r of a batch b0 on one device. A model
whose computing takes t(b) = fixed + per_sample b there, and whose gradients take `inside` s round a
ring of 8 devices of one node, `across` s where the ring crosses nodes, has

    a = fixed / t(b0)    c = per_sample b0 / t(b0)    net = across / t(b0)    local = inside / across

These are weighed against what is believed of any model by how sure each is (product of two normals).

Where measured steps take much longer, or less, than foretold, the model is not what takes the time
(loading data, say), and its shape says little of how they scale: each is then so much less sure.
"""

from dataclasses import dataclass
from math import hypot, inf, log

from muster.perf.speed.step_form import NAMES, Belief

FIXED = 1.0
"""Standard deviation of the log odds of the fixed part: launches of kernels are counted, what a
framework adds to them is not."""
UNIT = 0.5
"""Of the logarithm of r itself: a first step on several devices may be mostly synchronising."""
DEVIATIONS = 2.0
"""Of computing, within which a measured step is as foretold."""
LEAST = 1e-6
"""Least fixed part of a step: a logarithm needs one."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """A model on one device type: s of computing, and of a ring of 8 devices."""

    fixed: float
    per_sample: float
    known: float
    """Standard deviation of the logarithm of computing."""
    inside: float | None = None
    """s of a ring within one node; None: a node has one device."""
    across: float | None = None
    """s of a ring over nodes; None: its links are unknown."""
    links: float = 0.0
    """Standard deviation of the logarithm of either."""
    most: float = inf
    """Samples of a step that a device's memory holds."""
    rated: bool = True
    """Whether computing was measured or follows from a maker's rate; else it tells how a step scales,
    not how long it is."""

    def seconds(self, batch: float) -> float:
        """Return the s of computing a batch on one device."""
        return self.fixed + self.per_sample * batch

    def refine(
        self, beliefs: tuple[Belief, ...], batch: float, measured: float | None = None
    ) -> tuple[Belief, ...]:
        """Return the beliefs in units of this batch, with what is foretold weighed in; `measured`: its
        s, if known."""
        told = self._beliefs(batch)
        off = 0.0 if measured is None else self._beyond(batch, measured)
        return tuple(
            _together(belief, _less_sure(told[name], off)) if name in told else belief
            for name, belief in zip(NAMES, beliefs, strict=True)
        )

    def _beyond(self, batch: float, measured: float) -> float:
        """Return how far the logarithm of a step is from what is foretold, beyond its spread."""
        return max(0.0, abs(log(measured / self.seconds(batch))) - DEVIATIONS * self.known)

    def _beliefs(self, batch: float) -> dict[str, Belief]:
        alone = self.seconds(batch)
        fixed = min(max(self.fixed / alone, LEAST), 1 - LEAST)
        told = {
            "a": Belief(log(fixed), hypot(FIXED * (1 - fixed), UNIT)),
            "c": Belief(log(1 - fixed), hypot(FIXED * fixed, UNIT)),
        }
        if self.across is not None:
            told["net"] = Belief(log(self.across / alone), hypot(self.known, self.links))
            if self.inside is not None:
                told["local"] = Belief(log(self.inside / self.across), hypot(self.links, self.links))
        return told


def _less_sure(belief: Belief, by: float) -> Belief:
    return Belief(belief.middle, hypot(belief.deviation, by))


def _together(one: Belief, other: Belief) -> Belief:
    weights = one.deviation**-2, other.deviation**-2
    middle = (weights[0] * one.middle + weights[1] * other.middle) / sum(weights)
    return Belief(middle, sum(weights) ** -0.5)
