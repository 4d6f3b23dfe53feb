"""Nonlinear least squares for the small, regular problems of a fit: Gauss-Newton with damping.

SciPy's solver is made for problems of any size and shape, and spends more on each of its steps than a
fit of ours takes: here values and derivatives come from one evaluation, and the unit matrix of the
prior among the residuals keeps the normal equations regular, so that they can be solved as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Evaluate = Callable[[Array], tuple[Array, Callable[[], Array]]]
"""Residuals, and what works out their Jacobian there: one step in six is taken back."""

CLOSE = 1e-4
"""Size of a step, in standard deviations of the prior, after which the next would not be noticed."""
FIRST, SOFTER, HARDER, HARDEST = 1e-3, 0.2, 5.0, 1e10
"""Damping at first, after a step that helped, after one that did not, and where none can."""
WELL, BADLY = 0.75, 0.25
"""Parts of the gain that derivatives promised: a step that gained more may be longer, one that gained
less has overshot, and so would the next (Marquardt, 1963; the bounds are those of trust regions)."""


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Where the sum of squares is least, with residuals and Jacobian there."""

    x: Array
    residuals: Array
    jacobian: Array


def solve(evaluate: Evaluate, start: Array, steps: int, close: float = CLOSE) -> Solved:
    """Minimise the sum of squared residuals from `start`, in at most this many steps."""
    x, damping = start, FIRST
    residuals, derive = evaluate(x)
    jacobian = derive()
    error = float(residuals @ residuals)
    normal, slope = jacobian.T @ jacobian, jacobian.T @ residuals
    for _ in range(steps):
        damped = normal.copy()
        damped.flat[:: len(x) + 1] += damping * normal.diagonal()
        step = np.linalg.solve(damped, -slope)
        there, derive = evaluate(x + step)
        found = float(there @ there)
        gained, promised = error - found, -float(step @ (2 * slope + normal @ step))
        if found <= error:
            x, residuals, jacobian, error = x + step, there, derive(), found
            normal, slope = jacobian.T @ jacobian, jacobian.T @ residuals
            if gained > WELL * promised:
                damping *= SOFTER
            elif gained < BADLY * promised:
                damping *= HARDER
        elif damping > HARDEST:
            break
        else:
            damping *= HARDER
        if float(np.abs(step).max()) < close:
            break
    return Solved(x, residuals, jacobian)
