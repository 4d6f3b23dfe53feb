"""What an update depends on besides tensors: hyper-parameters, an optimiser's own numbers, scalers.

A joiner needs them with every window, since it applies updates to what it has.
"""

from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from muster.runtime.state.kept_values import calls_of
from muster.runtime.state.state import Packed, TrainingState

SMALL = 64
"""Elements of a tensor that counts as a few numbers."""
_TORCH_OWN = {*vars(torch.optim.SGD([torch.zeros(1)], 0.1)), "step", "_opt_called"}
"""Attributes of every optimiser."""


def hyper_of(state: TrainingState) -> Packed:
    """Return a copy of the optimisers' numbers, for JSON."""
    return {
        "groups": state.settings(),
        "own": [own_numbers(each) for each in state.optimizers],
        "scalers": {name: scaler.state_dict() for name, scaler in _scalers(state)},
    }


def set_hyper(state: TrainingState, hyper: Packed) -> None:
    """Adopt another member's."""
    state.set_settings(hyper["groups"])
    for name, scaler in _scalers(state):
        if name in hyper["scalers"]:
            scaler.load_state_dict(hyper["scalers"][name])
    for optimizer, numbers in zip(state.optimizers, hyper["own"], strict=True):
        for name, value in numbers.items():
            mine = getattr(optimizer, name, None)
            if isinstance(mine, Tensor):
                mine.detach().copy_(torch.tensor(value, dtype=mine.dtype))
            else:
                setattr(optimizer, name, value)


def _scalers(state: TrainingState) -> list[tuple[str, GradScaler]]:
    """Return the kept scalers: gradients are divided by their scale before each update."""
    return [(name, each) for name, each in state.kept.items() if isinstance(each, GradScaler)]


class HyperKeeper:
    """Hyper-parameters as a step began with them: a redone step runs the loop again, which may set
    them by hand.

    Schedules know themselves that a step is redone (`OncePerStep`), and are left alone.
    """

    def __init__(self, state: TrainingState) -> None:
        self._state = state
        self._step = -1
        self._kept: list[Packed] = []

    def begin(self, step: int) -> None:
        """Keep what a step begins with."""
        self._step = step
        self._kept = [
            {k: v.clone() if isinstance(v, Tensor) else v for k, v in group.items() if k != "params"}
            for group in self._groups()
        ]

    def redo(self) -> None:
        """Go back to what the step began with."""
        state = self._state
        calls = (calls_of(each) for each in (*state.schedulers, *state.kept.values()))
        if len(self._kept) != len(self._groups()) or any(c and c[0] == self._step for c in calls):
            return
        for group, kept in zip(self._groups(), self._kept, strict=True):
            for key, value in kept.items():
                if isinstance(value, Tensor):
                    group[key].copy_(value)
                else:
                    group[key] = value

    def _groups(self) -> list[Packed]:
        return [group for optimizer in self._state.optimizers for group in optimizer.param_groups]


def own_numbers(optimizer: Any) -> Packed:
    """Return the numbers that an optimiser keeps as attributes of its own, such as a count."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return {
        name: value.tolist() if isinstance(value, Tensor) else value
        for name, value in vars(optimizer).items()
        if name not in _TORCH_OWN and id(value) not in held and _is_small(value)
    }


def _is_small(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() <= SMALL and not value.requires_grad
    return isinstance(value, bool | int | float | str)
