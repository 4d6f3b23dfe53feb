"""Least squares: the minimum that SciPy finds."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import least_squares

from muster.perf.speed.gauss_newton import Array, solve

CLOSE = 1e-4
BENT = np.array([[1.0, 0.5], [0.8, -1.0], [-0.3, 1.2]])


@pytest.mark.parametrize("measured", [[9.0, -4.0, 3.0], [0.1, 6.0, -8.0], [-5.0, -5.0, 7.0]])
def test_finds_the_minimum_though_measurements_contradict_the_prior(measured: list[float]) -> None:
    """Exponentials cannot be negative, so residuals stay large, and with them what J'J leaves out."""

    def evaluate(x: Array) -> tuple[Array, Callable[[], Array]]:
        curves = np.exp(BENT @ x)
        residuals = np.concatenate((curves - measured, x))
        return residuals, lambda: np.concatenate((curves[:, None] * BENT, np.eye(2)))

    def residuals(x: Array) -> Array:
        return evaluate(x)[0]

    found = solve(evaluate, np.zeros(2), 100, CLOSE)
    known = least_squares(residuals, np.zeros(2), xtol=1e-12, ftol=1e-12)
    assert np.allclose(found.x, known.x, atol=10 * CLOSE)
