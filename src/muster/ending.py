"""How a training ends by its loss: one rule for scripts, job files, the runtime and predictions.

As text, an ending reads `loss < 0.1`, `converged 0.5%`, `converged 0.5% for 5 epochs`, or two of them
joined by `or`. It is judged once per epoch, by the epoch's mean loss:

    fall    best - loss
    flat    -RISE · first <= fall < decrease · first, and fall <= steepest / 2
    over    loss < bound, or `patience` flat epochs in a row

where first is the first epoch's loss, and best and steepest (the largest fall) are those of the epochs
before. Of a training that works, the first is the largest; a spike later on changes nothing. A loss
that rises, as after a warm restart of the learning rate or in a divergence, has not converged; nor has
one that starts slowly and falls as fast as it ever did. After `RISEN` epochs above that band the best
is forgotten: it was a wrong number, or the training has begun again.
"""

import re
from dataclasses import dataclass, replace
from math import inf, isfinite

PATIENCE = 3
"""Flat epochs in a row, unless the user says otherwise."""
RISE = 0.05
"""Share of the first loss above the best from which an epoch is not flat: more than the noise of an
epoch's mean."""
RISEN = 3
"""Epochs in a row that lie so far above the best until it is forgotten."""

EXAMPLES = "loss < 0.1, converged 0.5%, converged 0.5% for 5 epochs, or two of them joined by `or`"

_BOUND = re.compile(r"loss *<=? *(\S+)")
_CONVERGED = re.compile(r"converged +(\S+?)(%?)(?: +(?:for|over) +(\d+) +epochs?)?")


@dataclass(frozen=True, slots=True)
class Trend:
    """What an ending must know of the epochs so far."""

    first: float = 0.0
    best: float = inf
    flat: int = 0
    """Flat epochs in a row."""
    steepest: float = 0.0
    """The largest fall of an epoch."""
    risen: int = 0
    """Epochs in a row that lie above the best by more than noise."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A training ends once an epoch's mean loss is below a bound, or has converged."""

    bound: float | None = None
    decrease: float | None = None
    """Share of the first epoch's loss."""
    patience: int = PATIENCE

    def __post_init__(self) -> None:
        if self.bound is None and self.decrease is None:
            raise ValueError("an ending needs a bound or a decrease")
        if self.bound is not None and not isfinite(self.bound):
            raise ValueError(f"the bound of a loss must be a number, not {self.bound}")
        if self.decrease is not None and not 0 < self.decrease < 1:
            raise ValueError(f"must be between 0 and 100 % of the first loss, not {self.decrease:g}")
        if self.patience < 1:
            raise ValueError(f"needs at least 1 epoch, not {self.patience}")

    def __or__(self, other: "Ending") -> "Ending":
        """Return the ending that comes with either."""
        if not isinstance(other, Ending):
            return NotImplemented
        if None not in (self.decrease, other.decrease):
            raise ValueError("two endings of one training: give converged once")
        bounds = [each for each in (self.bound, other.bound) if each is not None]
        by = self if self.decrease is not None else other
        return Ending(max(bounds, default=None), by.decrease, by.patience)

    def __ror__(self, other: object) -> "Ending":
        # In Python, `a < 0.1 | b` is `a < (0.1 | b)`.
        raise TypeError("put the first condition in brackets: (muster.loss < 0.1) | ...")

    def __str__(self) -> str:
        parts = [] if self.bound is None else [f"loss < {self.bound:g}"]
        if self.decrease is not None:
            epochs = f"{self.patience} epoch{'s' if self.patience > 1 else ''}"
            parts.append(f"converged {100 * self.decrease:g}% for {epochs}")
        return " or ".join(parts)

    def after(self, trend: Trend, loss: float) -> Trend:
        """Return the trend after one more epoch; a loss that is no number ends nothing."""
        if not isfinite(loss):
            return replace(trend, flat=0)
        if trend.best == inf:
            return Trend(loss, loss)
        fall, scale = trend.best - loss, abs(trend.first)
        risen = trend.risen + 1 if fall < -RISE * scale else 0
        falls = fall >= (self.decrease or 0.0) * scale or fall > trend.steepest / 2
        flat = self.decrease is not None and not risen and not falls
        best = loss if risen >= RISEN else min(trend.best, loss)
        steepest = max(trend.steepest, fall)
        return Trend(trend.first, best, trend.flat + 1 if flat else 0, steepest, risen)

    def is_met(self, trend: Trend, loss: float) -> bool:
        """Return whether a training is over after an epoch of this loss, which the trend includes."""
        below = self.bound is not None and loss < self.bound
        return below or (self.decrease is not None and trend.flat >= self.patience)


def parse_ending(text: str) -> Ending:
    """Read an ending as users write it; `ValueError` with what to write."""
    parts = [_part(each.strip()) for each in text.split(" or ")]
    if len(parts) > 2:
        raise ValueError(f"has more than two conditions; write {EXAMPLES}")
    return parts[0] if len(parts) == 1 else parts[0] | parts[1]


def parse_share(text: str) -> float:
    """Read `0.5%` or `0.005`."""
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def _part(text: str) -> Ending:
    try:
        if found := _BOUND.fullmatch(text):
            return Ending(bound=float(found[1]))
        if found := _CONVERGED.fullmatch(text):
            return Ending(decrease=parse_share(found[1] + found[2]), patience=int(found[3] or PATIENCE))
    except ValueError:
        pass
    raise ValueError(f"{text!r} is not an ending; write {EXAMPLES}")
