"""When a training ends by its loss, simulated: the rule itself over the curve's continuations.

The rule judges each epoch's mean, noise included: below a bound, the first epoch that is low by chance
counts; of flat epochs in a row, one lucky epoch begins the count again, and a lucky best makes those
after it look flat. No formula of the curve alone says when that happens. Each curve is continued with
the same normal noise, so that curves differ by their form and not by chance.
"""

from collections.abc import Sequence
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from muster.ending import RISE, Ending, Trend
from muster.perf.epochs.loss_curve import Floats

PATHS = 16
"""Continuations of each curve: their median is within a quarter of their standard deviation."""
AHEAD = 256
"""Epochs simulated at a time, ..."""
TIMES = 4
"""... and how often, at the most: beyond them a curve's own end holds."""
NOISE = np.random.default_rng(0).standard_normal((TIMES, PATHS, AHEAD))


class FollowedCurve(Protocol):
    """A fitted loss."""

    def losses(self, epochs: Floats) -> Floats:
        """Return the losses after these epochs."""
        ...


def ends(
    curves: Sequence[tuple[FollowedCurve, float]],
    noise: float,
    now: float,
    ending: Ending,
    trend: Trend,
    without: Floats,
) -> Floats:
    """Return the epoch after which each continuation of each curve ends: (curves, paths).

    `curves`: each with what is added to its losses.
    `without`: each curve's end without noise, for those that do not end while they are simulated."""
    found = np.full((len(curves), PATHS), inf)
    levels = np.stack([curve.losses(np.array([now])) + shift for curve, shift in curves])[:, None, :]
    run = _Run(ending, trend, np.repeat(levels, PATHS, 1))
    for time in range(TIMES):
        epochs = now + 1 + AHEAD * time + np.arange(AHEAD, dtype=np.float64)
        middle = np.stack([curve.losses(epochs) + shift for curve, shift in curves])
        met = run.on(middle[:, None, :] + noise * NOISE[time])
        ended = met.any(-1) & (found == inf)
        found[ended] = epochs[met.argmax(-1)][ended]
        if (found < inf).all():
            return found
    return np.where(found < inf, found, np.maximum(without[:, None], epochs[-1]))


class _Run:
    """The rule of `Ending.after` on many continuations at once.

    A rise for good, after which the best is forgotten, is no part of a fitted curve."""

    def __init__(self, ending: Ending, trend: Trend, levels: Floats) -> None:
        self._ending, self._first = ending, abs(trend.first)
        # A best that the last epochs lie far above is about to be forgotten.
        self._best = levels if trend.risen else np.full_like(levels, trend.best)
        self._steepest = np.full_like(levels, trend.steepest)
        self._flat = np.full_like(levels, trend.flat)
        """Flat epochs in a row so far."""

    def on(self, losses: Floats) -> NDArray[np.bool_]:
        """Return after which of these epochs a training would be over."""
        below = losses < (-inf if self._ending.bound is None else self._ending.bound)
        if self._ending.decrease is None:
            return below
        bests = np.minimum.accumulate(np.concatenate((self._best, losses), -1), -1)
        falls = bests[..., :-1] - losses
        steepest = np.maximum.accumulate(np.concatenate((self._steepest, falls), -1), -1)
        flat = (falls < self._ending.decrease * self._first) & (falls >= -RISE * self._first)
        flat &= falls <= steepest[..., :-1] / 2
        at = np.arange(losses.shape[-1])
        since = np.maximum.accumulate(np.where(flat, -1 - self._flat, at), -1)
        self._best, self._steepest = bests[..., -1:], steepest[..., -1:]
        self._flat = at[-1] - since[..., -1:]
        return below | (at - since >= self._ending.patience)
