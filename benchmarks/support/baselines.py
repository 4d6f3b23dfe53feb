"""The speed models that ours is held against, fitted as well as they can be on the same samples."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from muster.perf.estimate import Unknown
from muster.perf.speed.fitted import PlacedSample
from muster.perf.speed.step_form import Arrays, StepSetting
from support.optimus_curve import SpeedSample, SpeedSetting, features, fit_synchronous

Array = NDArray[np.float64]
Predict = Callable[[Sequence[StepSetting]], Array]

STARTS = 12
"""Starting points of Pollux' fit; its objective has several minima, its artifact starts from one."""
LEAST = 1e-8
"""Smallest value of Pollux' parameters, as in its artifact."""


def optimus(samples: Sequence[PlacedSample]) -> Predict:
    """Optimus' synchronous curve. With all-reduce every worker serves a share: p = w, M = w b."""
    curve = fit_synchronous([_speed_sample(sample) for sample in samples])
    if isinstance(curve, Unknown):
        raise ValueError(curve.detail)
    terms = np.array(curve.terms)
    return lambda settings: np.asarray(
        features(curve.kind, [_speed_setting(setting) for setting in settings]) @ terms,
        dtype=np.float64,
    )


def _speed_setting(setting: StepSetting) -> SpeedSetting:
    return SpeedSetting(setting.devices, setting.devices, setting.devices * setting.batch)


def _speed_sample(sample: PlacedSample) -> SpeedSample:
    where = _speed_setting(sample.setting)
    return SpeedSample(where.servers, where.workers, where.batch, sample.seconds)


def pollux(samples: Sequence[PlacedSample]) -> Predict:
    """Pollux' form (OSDI'21, section 3.2): L-BFGS-B on RMSLE(T_grad) + RMSLE(T_iter) and its penalties.

    T_grad = a_c + b_c m; T_sync = a + b max(K - 2, 0), apart inside a node and across;
    T_iter = (T_grad^y + T_sync^y)^(1/y). Parameters: logs of a_c, b_c, a_n, b_n, a_r, b_r; y.
    """
    at = Arrays.of([sample.setting for sample in samples])
    steps = np.log([sample.seconds for sample in samples])
    grads = np.log([sample.computing for sample in samples])

    def loss(parameters: Array) -> float:
        grad, step = _pollux_times(parameters, at)
        _, _, a_n, b_n, a_r, b_r = np.exp(parameters[:6])
        errors = np.sqrt(np.mean((np.log(grad) - grads) ** 2)) + np.sqrt(
            np.mean((np.log(step) - steps) ** 2)
        )
        return float(
            errors + 1e-3 * (parameters[6] - 1) ** 2 + 1e-2 * ((b_n / a_n) ** 2 + (b_r / a_r) ** 2)
        )

    best = min((_minimum(loss, start) for start in _starts(at, steps)), key=loss)
    return lambda settings: _pollux_times(best, Arrays.of(settings))[1]


def _minimum(loss: Callable[[Array], float], start: Array) -> Array:
    bounds = [(np.log(LEAST), np.log(1e4))] * 6 + [(1.0, 10.0)]
    return np.asarray(minimize(loss, start, method="L-BFGS-B", bounds=bounds).x, dtype=np.float64)


def _starts(at: Arrays, steps: Array) -> list[Array]:
    """The artifact's own starting point, then some at the scale of the samples."""
    random, usual = np.random.default_rng(0), float(np.exp(steps.mean()))
    sized = np.log(usual * np.array([0.3, 0.3 / at.batch.mean(), 0.5, 0.02, 0.1, 0.02]))
    starts = [np.array([*np.log([0.1, 0.01] * 3), 1.001])]
    for _ in range(STARTS - 1):
        starts.append(np.array([*(sized + random.normal(0, 1, 6)), random.uniform(1, 4)]))
    return starts


def _pollux_times(parameters: Array, at: Arrays) -> tuple[Array, Array]:
    """(T_grad, T_iter)."""
    a_c, b_c, a_n, b_n, a_r, b_r = np.exp(parameters[:6])
    grad = a_c + b_c * at.batch
    more = np.maximum(at.devices - 2, 0)
    sync = np.where(at.nodes > 1, a_n + b_n * more, a_r + b_r * more)
    together = parameters[6]
    step = (grad**together + sync**together) ** (1 / together)
    return grad, np.where(at.devices > 1, step, grad)
