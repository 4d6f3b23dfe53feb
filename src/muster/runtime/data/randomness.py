"""The process's random generators (torch, `random`, numpy), seeded for a moment and restored."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def generators_kept() -> Iterator[None]:
    """Restore the process's random generators afterwards."""
    states = generator_states()
    try:
        yield
    finally:
        set_generator_states(states)


def generator_states() -> tuple[Any, Any, Any]:
    """Return the states of torch's, Python's and, if it is loaded, numpy's generator."""
    numpy = sys.modules.get("numpy")
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None


def set_generator_states(states: tuple[Any, Any, Any]) -> None:
    """Restore such states."""
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    numpy = sys.modules.get("numpy")
    if numpy and states[2] is not None:
        numpy.random.set_state(states[2])


def seed_generators(seed: int) -> None:
    """Seed all of them."""
    # Not torch.manual_seed: it would also seed the devices' generators, which are not restored.
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed(seed % 2**32)


def generators_used(before: tuple[Any, Any, Any]) -> bool:
    """Whether somebody has drawn from a generator since."""
    now = generator_states()
    same_numpy = before[2] is None or now[2] is None or _same_numpy(before[2], now[2])
    return not (torch.equal(before[0], now[0]) and before[1] == now[1] and same_numpy)


def _same_numpy(one: Any, other: Any) -> bool:
    return bool(one[2] == other[2] and (one[1] == other[1]).all())
