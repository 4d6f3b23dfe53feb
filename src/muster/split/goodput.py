"""What a step with a larger batch is worth (McCandlish et al., 2018; Pollux, OSDI'21).

The gradient's noise scale phi (samples) is the batch at which its noise equals its signal. In steps of
the user's own batch M0, a step of M samples is worth

    gain(M) = (phi + M0) / (phi + M) x M / M0

and a sample of it as much as efficiency(M) = gain(M) M0 / M of one at M0, between M0 / M and 1.
"""

from collections.abc import Mapping


def gain(noise: float, own: float, batch: float) -> float:
    """Return the worth of one step in steps of the user's own batch."""
    return (noise + own) / (noise + batch) * batch / own


def efficiency(noise: float, own: float, batch: float) -> float:
    """Return the worth of a sample at a batch, 1 at the user's own."""
    return (noise + own) / (noise + batch)


def seconds_at(known: Mapping[int, float], batch: int) -> float:
    """Return s of a step: as measured, between two measured ones in proportion.

    Beyond the largest, by the slope of the last two, or none if there is only one: a hope that a few
    steps will check.
    """
    sizes = sorted(known)
    above = next((i for i, size in enumerate(sizes) if size >= batch), len(sizes) - 1)
    high = sizes[above]
    if high == batch or len(sizes) == 1:
        return known[high]
    low = sizes[max(0, above - 1)] if above else sizes[0]
    if low == high:  # below the smallest that was measured: it costs no more than that one
        return known[high]
    slope = max(0.0, (known[high] - known[low]) / (high - low))
    return known[high] + slope * (batch - high)
