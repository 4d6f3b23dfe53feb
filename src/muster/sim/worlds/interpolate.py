"""Linear interpolation between scattered points of space, on their Delaunay tetrahedra.

Like SciPy's LinearNDInterpolator, which solves each tetrahedron by LAPACK: with many threads on a few
busy cores that takes seconds instead of milliseconds.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FLAT = 1e-12
"""Tetrahedra of less volume, relative to the cube of their size, are flat: grids have many."""
OUTSIDE = -1e-9
"""A point whose weights all reach this is inside, allowing for rounding."""


class Interpolation:
    """Values at points of space, and anywhere between them."""

    def __init__(self, points: Array, values: Array) -> None:
        """`points`: (n, 3); `values`: (n, m)."""
        # Late: SciPy takes longer to load than most commands take to answer.
        from scipy.spatial import Delaunay

        corners = Delaunay(points).simplices
        edges = points[corners[:, 1:]] - points[corners[:, :1]]
        # Rows of the inverse are cross products of edges over the volume they span.
        crossed = np.stack([np.cross(edges[:, i - 2], edges[:, i - 1]) for i in range(3)], axis=1)
        volume = (edges[:, 0] * crossed[:, 0]).sum(axis=1)
        solid = np.abs(volume) > FLAT * np.abs(edges).max(axis=(1, 2)) ** 3
        self._weigh = crossed[solid] / volume[solid, None, None]
        self._origin = points[corners[solid, 0]]
        self._values = values[corners[solid]]
        self._low = points[corners[solid]].min(axis=1)
        self._high = points[corners[solid]].max(axis=1)

    def along(self, x: float, y: float, z: Array) -> Array:
        """Return values at (x, y, z) for each z, shape (len(z), m); NaN outside all points."""
        low, high = self._low, self._high
        near = (low[:, 0] <= x) & (x <= high[:, 0]) & (low[:, 1] <= y) & (y <= high[:, 1])
        near &= (low[:, 2] <= z.max()) & (z.min() <= high[:, 2])
        if not near.any():
            return np.full((len(z), self._values.shape[2]), np.nan)
        where = np.stack([np.full(len(z), x), np.full(len(z), y), z], axis=1)
        off = where[:, None, :] - self._origin[near]
        three = (self._weigh[near] * off[:, :, None, :]).sum(axis=3)
        weights = np.concatenate([1 - three.sum(axis=2, keepdims=True), three], axis=2)
        inside = weights.min(axis=2) >= OUTSIDE
        # On a grid neighbours may cut a shared face along different diagonals: the first counts.
        best, every = inside.argmax(axis=1), np.arange(len(z))
        found = (weights[every, best][:, :, None] * self._values[near][best]).sum(axis=1)
        found[~inside.any(axis=1)] = np.nan
        return np.asarray(found, dtype=np.float64)
