"""What measured steps have beyond the form, carried to settings nearby.

The form explains a job's steps to 5 or 10 %: kernels, links and neighbours are not smooth. Where a
setting was measured often, its own mean is worth more than the form's value. So the logarithm of a step
is the form's plus a residue, a Gaussian process over settings (kriging; Kennedy and O'Hagan, 2001):

    residue ~ N(0, tau^2 exp(-(d / reach)^2 / 2)),  d = distance between settings in doublings

Measured n times it is known to noise / sqrt(n); far from all measured settings it is 0, the form's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.perf.learnt.batches import Array

TAU = 0.06
"""Standard deviation of the logarithm: the form's errors on measured jobs (see perf_t4)."""
REACH = 0.35
"""Doublings of devices, nodes or batch over which it holds: within a third of one."""
NOISE = 0.06
"""Of one measured step (`speed.fitted.Spread`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Residue:
    """The residue at known settings."""

    where: Array
    """(n, 3): coordinates of the settings."""
    weights: Array
    """(n,): of each setting's kernel."""

    @staticmethod
    def of(where: Array, beside: Array, off: Array, counts: Sequence[int]) -> "Residue":
        """Return the residue from each setting's coordinates, the kernel between them, the error of
        the form, and reports."""
        matrix = beside.copy()
        matrix.flat[:: len(counts) + 1] += NOISE**2 / np.array(counts, dtype=np.float64)
        weights = np.linalg.solve(matrix, off)
        return Residue(where, np.asarray(weights, dtype=np.float64))

    def at(self, beside: Array) -> Array:
        """Return the expected residue of the logarithm of a step at places, from the kernel between
        each of them and each of the settings."""
        return np.asarray(beside @ self.weights, dtype=np.float64)


def kernel(a: Array, b: Array) -> Array:
    """Return the covariance of the residue between each of some coordinates and each of others."""
    apart = ((a[:, None] - b[None, :]) ** 2).sum(axis=2)
    return np.asarray(TAU**2 * np.exp(-apart / (2 * REACH**2)), dtype=np.float64)
