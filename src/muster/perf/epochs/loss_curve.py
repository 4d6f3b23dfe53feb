"""The curve of a training loss, fitted to the losses so far.

Source: Optimus (Peng et al., EuroSys 2018): after k epochs, with every b >= 0,

    l(k) = 1 / (b0·k + b1) + b2        [loss, as a share of the largest one]

For a fixed b2, 1/(l - b2) is linear in k: least squares in two non-negative unknowns, in closed form.
An error e in l is an error of e/(l - b2)² in 1/(l - b2), so each point weighs (l - b2)⁴ and the sum of
squares is the loss's own. b2 is searched on grids that narrow.
"""

from dataclasses import dataclass, replace
from math import ceil, inf, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from muster.perf.estimate import BadMeasurementError

Floats = NDArray[np.float64]

MOST_POINTS = 64
"""Longer records are averaged into this many points, as Optimus averages steps; refitting 64 points
takes a fraction of a millisecond."""
NEIGHBOURS = 2
"""On each side of a point: their least and largest loss are the band it should lie in."""
FAR = 5.0
"""Standard deviations of the noise beyond the band from which a point is reported as an outlier."""
WINDOWS = (1.0, 0.7, 0.5)
"""Shares of the curve, counted from its end, that are fitted: how far the fits disagree says how badly
it follows the formula."""
LEAST_POINTS = 5
"""Three unknowns, and two points to spare."""
GRIDS = (24, 12, 12)
"""Values of b2 tried in each round; the next round searches around the best one."""
LEAST_RECENT = 8
"""Points from which noise is told."""
TINY = 1e-12


@dataclass(frozen=True, slots=True)
class LossPoint:
    """The training loss, averaged over an epoch or a part of one. It may be NaN or infinite."""

    epoch: float
    loss: float

    def __post_init__(self) -> None:
        if not (isfinite(self.epoch) and self.epoch >= 0):
            raise BadMeasurementError(f"not an epoch: {self.epoch}")


@dataclass(frozen=True, slots=True)
class LossCurve:
    """l = scale · (1 / (b0·(epoch - since) + b1) + b2), from epoch `since` on."""

    b0: float
    b1: float
    b2: float
    scale: float
    """The largest loss seen."""
    since: float

    def loss(self, epoch: float) -> float:
        """Return the fitted loss after an epoch."""
        return self.scale * (1 / max(self.b0 * (epoch - self.since) + self.b1, TINY) + self.b2)

    def losses(self, epochs: Floats) -> Floats:
        """Return the fitted losses after these epochs."""
        found: Floats = np.maximum(self.b0 * (epochs - self.since) + self.b1, TINY)
        return self.scale * (1 / found + self.b2)

    def slow_from(self, decrease: float) -> float:
        """Return the first epoch that lowers the loss by less than this share of the largest loss.

        With u = b0·k + b1, l(k-1) - l(k) = b0 / (u·(u - b0)) < d where u² - b0·u > b0/d."""
        if self.b0 <= 0:
            return self.since
        u = (self.b0 + sqrt(self.b0**2 + 4 * self.b0 / decrease)) / 2
        return max(self.since + ceil((u - self.b1) / self.b0 - 1e-6), self.since)

    def below_from(self, bound: float) -> float:
        """Return the epoch from which the loss is below a bound; infinite if it levels off above it.

        With l = bound / scale, b0·k + b1 > 1 / (l - b2)."""
        above = bound / self.scale - self.b2
        needed = 1 / above - self.b1 if above > 0 else inf
        if needed <= 0:
            return self.since
        return self.since + needed / self.b0 if self.b0 > 0 else inf


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A record ready to be fitted: outliers replaced, losses divided by the largest one."""

    epochs: Floats
    losses: Floats
    scale: float
    """The largest loss, outliers aside."""
    noise: float
    """Standard deviation of one point's error, as a share of the largest loss."""
    outliers: tuple[float, ...] = ()
    """Epochs of the points far outside the band of their neighbours."""

    def since(self, start: int) -> "Series":
        return replace(self, epochs=self.epochs[start:], losses=self.losses[start:])


def prepare(epochs: Floats, losses: Floats) -> Series:
    """Replace outliers, then normalise."""
    noise = _noise(losses)
    cleaned, far = _replace_outliers(losses, FAR * noise)
    scale = float(cleaned.max()) or 1.0
    return Series(epochs, cleaned / scale, scale, noise / scale, tuple(epochs[far].tolist()))


def thin(series: Series) -> Series:
    """Average neighbouring points down to `MOST_POINTS`."""
    size = -(-len(series.epochs) // MOST_POINTS)
    return replace(series, epochs=_means(series.epochs, size), losses=_means(series.losses, size))


def _means(values: Floats, size: int) -> Floats:
    """Return means of `size` values each; a remainder at the old end is dropped."""
    means: Floats = values[len(values) % size :].reshape(-1, size).mean(axis=1)
    return means


def _replace_outliers(losses: Floats, least: float) -> tuple[Floats, NDArray[np.int64]]:
    """Replace each point outside its neighbours' band by their median; the ends stay.

    Also return which points lie far outside: by more than the band's width and `least`."""
    n = NEIGHBOURS
    middle = slice(n, len(losses) - n)
    around = np.stack([losses[i : len(losses) - 2 * n + i] for i in range(2 * n + 1) if i != n])
    low, high = around.min(axis=0), around.max(axis=0)
    beyond = np.maximum(low - losses[middle], losses[middle] - high)
    cleaned = losses.copy()
    median_of_four = (around.sum(axis=0) - low - high) / 2
    cleaned[middle] = np.where(beyond > 0, median_of_four, losses[middle])
    return cleaned, np.flatnonzero((beyond > high - low) & (beyond > least)) + n


def smooth(losses: Floats) -> Floats:
    """Return the centred running mean over five points, over fewer at the ends."""
    if len(losses) <= 2 * NEIGHBOURS:
        return losses
    total = np.concatenate(([0.0], np.cumsum(losses)))
    at = np.arange(len(losses))
    reach = np.minimum(np.minimum(at, at[::-1]), 2)
    means: Floats = (total[at + reach + 1] - total[at - reach]) / (2 * reach + 1)
    return means


def _noise(losses: Floats) -> float:
    """Return the standard deviation of one point's error, from the median of second differences (their
    variance is six times a point's; the median ignores jumps)."""
    return float(np.median(np.abs(np.diff(losses, n=2)))) / 0.6745 / sqrt(6)


def recent_noise(series: Series, fitted: Floats) -> float:
    """Return the standard deviation of one epoch's error about a curve, as a share of the largest loss,
    in the latter half: it falls with the loss."""
    recent = max(len(series.losses) // 2, LEAST_RECENT)
    # A point may be the mean of several epochs.
    each = (series.epochs[-1] - series.epochs[0]) / (len(series.epochs) - 1)
    return _noise((series.losses - fitted)[-recent:]) * sqrt(max(each, 1.0))


def fit(series: Series) -> tuple[LossCurve, ...]:
    """Fit one curve to each of the windows, the widest first."""
    x, weights, since, span = windows(series)
    b0, b1, b2 = _search(x, series.losses, weights)
    found = zip((b0 / span).tolist(), b1.tolist(), b2.tolist(), since.tolist(), strict=True)
    return tuple(LossCurve(slope, at_start, b, series.scale, at) for slope, at_start, b, at in found)


def windows(series: Series) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the windows that are fitted: places of the points, 0 to 1 within one, and their weights
    (windows, points); the epoch at which each begins, and its length."""
    count = len(series.epochs)
    starts = [max(count - max(LEAST_POINTS, ceil(count * share)), 0) for share in WINDOWS]
    since = series.epochs[starts]
    span = series.epochs[-1] - since
    x = (series.epochs - since[:, None]) / span[:, None]
    return x, _weights(x, np.array(starts), count), since, span


def _weights(x: Floats, starts: NDArray[np.int64], count: int) -> Floats:
    """Weigh points by the square of their place in the window, 0 before it: (windows, points)."""
    place = x + 1 / (count - starts)[:, None]
    return np.where(np.arange(count) >= starts[:, None], place**2, 0.0)


def _search(x: Floats, losses: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the best b0 (for x), b1 and b2 of each window."""
    every = np.arange(len(x))
    inside = np.where(weights > 0, losses, inf)
    low, high = np.zeros(len(x)), inside.min(axis=1) * (1 - 1e-6)
    for tried in GRIDS:
        b2 = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, tried)
        b0, b1, error = _least_squares(x, losses, weights, b2)
        best = error.argmin(axis=1)
        low, high = b2[every, np.maximum(best - 1, 0)], b2[every, np.minimum(best + 1, tried - 1)]
    return b0[every, best], b1[every, best], b2[every, best]


def _least_squares(
    x: Floats, losses: Floats, weights: Floats, b2: Floats
) -> tuple[Floats, Floats, Floats]:
    """Non-negative b0, b1 for each b2 (windows, tried), and the weighted sum of squares of the loss.

    Either both are free, or the one that would be negative is 0 and the other is fitted alone."""
    x = x[:, None, :]
    rest = losses - b2[:, :, None]
    cubed = weights[:, None, :] * rest**3
    w = cubed * rest
    wx, cx = w * x, cubed * x
    s, sx, sxx = w.sum(-1) + TINY**2, wx.sum(-1), (wx * x).sum(-1) + TINY**2
    sz, sxz = cubed.sum(-1), cx.sum(-1)
    determinant = np.maximum(s * sxx - sx * sx, TINY**4)
    b0, b1 = (s * sxz - sx * sz) / determinant, (sxx * sz - sx * sxz) / determinant
    falls, starts_above = b0 > 0, b1 > 0
    b0, b1 = (
        np.where(falls, np.where(starts_above, b0, sxz / sxx), 0.0),
        np.where(falls, np.where(starts_above, b1, 0.0), sz / s),
    )
    fitted = 1 / np.maximum(b0[:, :, None] * x + b1[:, :, None], TINY)
    return b0, b1, (weights[:, None, :] * (fitted - rest) ** 2).sum(-1)
