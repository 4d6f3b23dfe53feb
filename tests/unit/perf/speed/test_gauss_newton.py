"""Least squares: the minimum that SciPy finds."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import least_squares

from muster.perf.speed.gauss_newton import Array, solve

CLOSE = 1e-4
BENT = np.array([[1.0, 0.5], [0.8, -1.0], [-0.3, 1.2]])
STEEP = np.array([[-0.9, -0.5], [0.6, -0.9], [0.0, -0.9]])


def minimum(bends: Array, measured: list[float]) -> tuple[Array, Array]:
    """Return what is found in as many steps as a fit has, and what SciPy finds.

    Exponentials cannot be negative, so residuals stay large, and with them what J'J leaves out."""

    def evaluate(x: Array) -> tuple[Array, Callable[[], Array]]:
        curves = np.exp(bends @ x)
        residuals = np.concatenate((curves - measured, x))
        return residuals, lambda: np.concatenate((curves[:, None] * bends, np.eye(2)))

    def residuals(x: Array) -> Array:
        return evaluate(x)[0]

    known = least_squares(residuals, np.zeros(2), xtol=1e-12, ftol=1e-12)
    return solve(evaluate, np.zeros(2), 100, CLOSE).x, known.x


@pytest.mark.parametrize("measured", [[9.0, -4.0, 3.0], [0.1, 6.0, -8.0], [-5.0, -5.0, 7.0]])
def test_finds_the_minimum_though_measurements_contradict_the_prior(measured: list[float]) -> None:
    found, known = minimum(BENT, measured)
    assert np.allclose(found, known, atol=10 * CLOSE)


def test_steps_that_overshoot_do_not_use_up_all_evaluations() -> None:
    found, known = minimum(STEEP, [-3.0, 2.0, -3.0])
    assert np.allclose(found, known, atol=10 * CLOSE)
