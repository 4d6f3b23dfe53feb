"""Nonlinear least squares for the small, regular problems of a fit: Gauss-Newton, damped and augmented.

Gauss-Newton takes J'J for the curvature of the sum of squares and leaves out the sum of r H(r). Where
few samples contradict the prior, residuals r stay large, and it creeps: 40 steps, each a little shorter
than the one before. So what is left out is learnt from how the slope changes from step to step (Dennis,
Gay and Welsch 1981, NL2SOL), and ten steps come closer.

SciPy's solver is made for problems of any size and shape, and spends more on each of its steps than a
fit of ours takes: here values and derivatives come from one evaluation, and the unit matrix of the
prior among the residuals keeps the normal equations regular, so that they can be solved as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Evaluate = Callable[[Array], tuple[Array, Array]]
"""Residuals and their Jacobian."""

CLOSE = 1e-4
"""Size of a step, in standard deviations of the prior, after which the next would not be noticed."""
FIRST, SOFTER, HARDER, HARDEST = 1e-3, 0.2, 5.0, 1e10
"""Damping at first, after a step that helped, after one that did not, and where none can."""
NOTHING = 1e-12
"""A change of the slope along a step that is too small to learn from."""


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Where the sum of squares is least, with residuals and Jacobian there."""

    x: Array
    residuals: Array
    jacobian: Array


def solve(evaluate: Evaluate, start: Array, steps: int, close: float = CLOSE) -> Solved:
    """Minimise the sum of squared residuals from `start`, in at most this many steps."""
    x, damping = start, FIRST
    residuals, jacobian = evaluate(x)
    error = float(residuals @ residuals)
    normal, slope = jacobian.T @ jacobian, jacobian.T @ residuals
    rest = np.zeros_like(normal)
    for _ in range(steps):
        step = _step(normal, rest, slope, damping)
        if float(step @ slope) >= 0.0:  # what was learnt leads uphill
            rest = np.zeros_like(normal)
            step = _step(normal, rest, slope, damping)
        there, by = evaluate(x + step)
        found, slope_there = float(there @ there), by.T @ there
        rest = _learnt(rest, step, slope_there - slope, slope_there - jacobian.T @ there)
        if found <= error:
            x, residuals, jacobian, error = x + step, there, by, found
            normal, slope = jacobian.T @ jacobian, slope_there
            damping *= SOFTER
        elif damping > HARDEST:
            break
        else:
            damping *= HARDER
        if float(np.abs(step).max()) < close:
            break
    return Solved(x, residuals, jacobian)


def _step(normal: Array, rest: Array, slope: Array, damping: float) -> Array:
    """Return the step to where the damped quadratic is least."""
    curved = normal + rest
    curved.flat[:: len(slope) + 1] += damping * normal.diagonal()
    return np.asarray(np.linalg.solve(curved, -slope), dtype=np.float64)


def _learnt(rest: Array, step: Array, by: Array, beyond: Array) -> Array:
    """Return the sum of r H(r), given the change of the slope over a step, and the part of it that the
    change of J explains: the least change of `rest` that does."""
    along = float(by @ step)
    if along <= NOTHING:
        return rest
    known = float(step @ rest @ step)
    if abs(known) > NOTHING:  # it shrinks with the residuals
        rest = rest * min(1.0, abs(float(step @ beyond)) / abs(known))
    missing = beyond - rest @ step
    both = np.outer(missing, by)
    return np.asarray(
        rest + (both + both.T) / along - (float(missing @ step) / along**2) * np.outer(by, by),
        dtype=np.float64,
    )
