"""The learning rate of a batch other than the user's own, applied around the user's schedule.

    adascale   gain(M): as much as the noise allows, so that a step is worth gain(M) steps of the own
               batch (Johnson et al., AdaScale, 2020)
    sqrt       sqrt(M / M0): for optimisers that divide by the gradient's size (Adam and its kin)
    linear     M / M0: for SGD with a warm-up (Goyal et al., 2017)

Adam and its kin get sqrt(gain(M)) by "adascale": they divide by the root of |G|^2 + tr(S) / M, which
makes a step sqrt(gain(M)) times as long by itself, and as long as AdaScale's in all. On a small GPT it
beat sqrt(M / M0) at every batch: a sample at 8 times the own one was worth 0.43, not 0.35.

Optimisers hold the user's own rate at all times, but for the moment of their update.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite, sqrt
from typing import Any

from torch import Tensor

from muster.runtime.errors import BadTrainingError
from muster.runtime.state.batching import Batching

LrScale = str | Callable[[float], float] | None
"""A rule by name, a function of M / M0, or none: the rate stays as it is."""
AUTO = "auto"
"""The one whose step is worth what the scheduler believes: "adascale"."""
RULES = ("sqrt", "adascale", "linear")
NORMALISING = ("adam", "adagrad", "adadelta", "rmsprop", "lamb", "lion", "shampoo", "soap", "muon")
"""Words in the names of optimisers whose update does not grow with the gradient."""


def check_rule(rule: LrScale) -> None:
    """Refuse an unknown rule."""
    if rule is not None and rule != AUTO and rule not in RULES and not callable(rule):
        names = ", ".join(repr(name) for name in RULES)
        raise BadTrainingError(
            f"lr_scale is {rule!r}: give one of {names}, None, or a function of the factor by which "
            "the batch has grown"
        )


def factor_of(rule: LrScale, optimizer: Any, batching: Batching, samples: int) -> float:
    """Return what to multiply the learning rate with for a step of this many samples."""
    times = max(samples, batching.limits.own) / batching.limits.own
    if rule is None or times == 1.0:
        return 1.0
    if callable(rule):
        found = float(rule(times))
    elif rule in (AUTO, "adascale"):
        gain = batching.gain(samples)
        found = sqrt(gain) if _normalises(optimizer) else gain
    else:
        found = {"sqrt": sqrt(times), "linear": times}[rule]
    if not isfinite(found) or found < 0:
        raise BadTrainingError(f"lr_scale gave {found} for a batch {times:g} times the own one")
    return found


def _normalises(optimizer: Any) -> bool:
    names = [kind.__name__.lower() for kind in type(optimizer).__mro__]
    return any(word in name for name in names for word in NORMALISING)


@contextmanager
def scaled(optimizer: Any, factor: float) -> Iterator[None]:
    """Multiply the learning rates of an optimiser during a block."""
    if factor == 1.0:
        yield
        return
    kept = []
    for group in optimizer.param_groups:
        rate = group.get("lr")
        if isinstance(rate, Tensor):  # compiled code and graphs hold on to it
            kept.append((group, rate.clone()))
            rate.mul_(factor)
        elif isinstance(rate, int | float):
            kept.append((group, rate))
            group["lr"] = rate * factor
    try:
        yield
    finally:
        for group, rate in kept:
            if isinstance(rate, Tensor):
                group["lr"].copy_(rate)
            else:
                group["lr"] = rate
