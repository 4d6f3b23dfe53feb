"""What a step with a larger batch is worth (McCandlish et al., 2018; Pollux, OSDI'21).

The gradient's noise scale phi (samples) is the batch at which its noise equals its signal. In steps of
the user's own batch M0, a step of M samples is worth

    gain(M) = (phi + M0) / (phi + M) x M / M0

and a sample of it as much as efficiency(M) = gain(M) M0 / M of one at M0, between M0 / M and 1.
"""


def gain(noise: float, own: float, batch: float) -> float:
    """Return the worth of one step in steps of the user's own batch."""
    return (noise + own) / (noise + batch) * batch / own


def efficiency(noise: float, own: float, batch: float) -> float:
    """Return the worth of a sample at a batch, 1 at the user's own."""
    return (noise + own) / (noise + batch)
