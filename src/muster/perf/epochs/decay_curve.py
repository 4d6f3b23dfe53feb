"""A loss that decays exponentially, fitted to the losses so far: the other form of a curve.

    l(k) = a·exp(-r·k) + c        [loss, as a share of the largest one; a, r, c >= 0]

Optimus' form (`loss_curve.py`) never stops falling fast enough for many a training, and is late; this
one levels off, and is early. What both say brackets the truth more often than either meets it
(docs/explanation/convergence.md). For a fixed r, a and c are linear: least squares in closed form. r is
searched on grids that narrow.
"""

from dataclasses import dataclass
from math import ceil, exp, inf, log

import numpy as np

from muster.perf.epochs.loss_curve import TINY, Floats, Series, windows

RATES = np.geomspace(0.05, 30.0, 24)
"""Decay rates tried, per length of the window: from hardly bent to over within a thirtieth of it."""
FINER = 8
"""Rates tried between the neighbours of the best."""


@dataclass(frozen=True, slots=True)
class DecayCurve:
    """l = scale · (a·exp(-rate·(epoch - since)) + c), from epoch `since` on."""

    a: float
    rate: float
    c: float
    scale: float
    """The largest loss seen."""
    since: float

    def losses(self, epochs: Floats) -> Floats:
        """Return the fitted losses after these epochs."""
        found: Floats = self.scale * (self.a * np.exp(-self.rate * (epochs - self.since)) + self.c)
        return found

    def slow_from(self, decrease: float) -> float:
        """Return the first epoch that lowers the loss by less than this share of the largest loss.

        l(k-1) - l(k) = a·exp(-r·(k-1))·(1 - exp(-r)) < d."""
        first = self.a * (1 - exp(-self.rate))
        if first <= decrease:
            return self.since
        return self.since + ceil(1 + log(first / decrease) / self.rate - 1e-6)

    def below_from(self, bound: float) -> float:
        """Return the epoch from which the loss is below a bound; infinite if it levels off above it."""
        above = bound / self.scale - self.c
        if above <= 0:
            return inf
        return self.since if self.a <= above else self.since + log(self.a / above) / self.rate


def fit_decays(series: Series) -> tuple[DecayCurve, ...]:
    """Fit one curve to each of the windows, the widest first."""
    x, weights, since, span = windows(series)
    every = np.arange(len(x))
    a, c, error = _least_squares(x, series.losses, weights, np.tile(RATES, (len(x), 1)))
    best = error.argmin(axis=1)
    low, high = RATES[np.maximum(best - 1, 0)], RATES[np.minimum(best + 1, len(RATES) - 1)]
    rates = low[:, None] * (high / low)[:, None] ** np.linspace(0.0, 1.0, FINER)
    a, c, error = _least_squares(x, series.losses, weights, rates)
    at = every, error.argmin(axis=1)
    found = zip(
        a[at].tolist(), (rates[at] / span).tolist(), c[at].tolist(), since.tolist(), strict=True
    )
    return tuple(DecayCurve(each, rate, level, series.scale, at) for each, rate, level, at in found)


def _least_squares(
    x: Floats, losses: Floats, weights: Floats, rates: Floats
) -> tuple[Floats, Floats, Floats]:
    """Non-negative a, c for each rate (windows, tried), and the weighted sum of squares.

    Either both are free, or the one that would be negative is 0 and the other is fitted alone."""
    decays = np.exp(-rates[:, :, None] * np.maximum(x, 0.0)[:, None, :])
    weighted = weights[:, None, :] * decays
    s, sy = weights.sum(-1)[:, None], (weights * losses).sum(-1)[:, None]
    se, see, sey = weighted.sum(-1), (weighted * decays).sum(-1) + TINY**2, (weighted * losses).sum(-1)
    a = (s * sey - se * sy) / np.maximum(s * see - se * se, TINY**2)
    c = (sy - a * se) / s
    a, c = np.where(c < 0, sey / see, a), np.maximum(c, 0.0)
    a, c = np.maximum(a, 0.0), np.where(a < 0, sy / s, c)
    left = a[:, :, None] * decays + c[:, :, None] - losses
    return a, c, (weights[:, None, :] * left**2).sum(-1)
