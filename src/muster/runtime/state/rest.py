"""The part of a training's state that changes outside of updates, if at all.

Buffers and frozen parameters, schedules, what the user keeps, numbers in modules and optimisers. A
joiner gets it at the beginning of a step, as it was there.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from muster.runtime.state.fixed import is_large
from muster.runtime.state.kept_values import (
    calls_of,
    kept_value,
    schedule_value,
    set_calls,
    set_kept,
)
from muster.runtime.state.state import Packed, TrainingState
from muster.runtime.state.tree import mapped_tensors


def fixed_of(state: TrainingState) -> dict[str, Tensor]:
    """Return the large tensors that training does not change: frozen parameters and buffers."""
    return {name: tensor for name, tensor in _untrained(state) if is_large(tensor)}


def rest_of(state: TrainingState, changed: Collection[str] | None = None) -> Packed:
    """Return the rest of the state, live; of large tensors those that have changed (None: all)."""
    fixed = set() if changed is None else fixed_of(state).keys() - set(changed)
    return {
        "models": [_rest_of_model(state, i, fixed) for i in range(len(state.models))],
        "loose": {n: t for n, t in _loose(state) if n not in fixed},
        "schedulers": [schedule_value(each) for each in state.schedulers],
        "kept": {name: kept_value(thing) for name, thing in state.kept.items()},
        "calls": [calls_of(each) for each in (*state.schedulers, *state.kept.values())],
        "optimizers": [_own_of(each) for each in state.optimizers],
        "frozen": {name: optimizer.state[p] for name, optimizer, p in _frozen(state)},
        "numbers": state.numbers.changed(),
    }


def set_rest(state: TrainingState, rest: Packed) -> None:
    """Adopt another member's."""
    set_kept(state.kept, rest["kept"])  # first: it may refuse
    for model, values in zip(state.models, rest["models"], strict=True):
        own = OrderedDict(values)
        own._metadata = getattr(model.state_dict(), "_metadata", {})  # type: ignore[attr-defined]
        model.load_state_dict(own, strict=False)
    state.set_loose(rest["loose"])
    for scheduler, value in zip(state.schedulers, rest["schedulers"], strict=True):
        scheduler.load_state_dict(value)
    for thing, calls in zip((*state.schedulers, *state.kept.values()), rest["calls"], strict=True):
        set_calls(thing, calls)
    for optimizer, own_values in zip(state.optimizers, rest["optimizers"], strict=True):
        _set_own(optimizer, own_values)
    for name, optimizer, parameter in _frozen(state, rest["frozen"]):
        optimizer.state[parameter] = mapped_tensors(rest["frozen"][name], partial(_beside, parameter))
    state.numbers.set(rest["numbers"])


def _beside(parameter: Tensor, tensor: Tensor) -> Tensor:
    """Return a part of an optimiser's state where its parameter is; counters stay in host memory."""
    return tensor.to(parameter.device) if tensor.dim() else tensor


def _frozen(
    state: TrainingState, named: Collection[str] | None = None
) -> Iterator[tuple[str, Any, Any]]:
    """Return parameters that were trained before, with their optimiser, which has kept their state."""
    trained = {id(p) for p in state.parameters}
    for name, parameter in state.all_parameters():
        optimizer = state.optimizer_of(parameter)
        if optimizer is None or id(parameter) in trained:
            continue
        if name in named if named is not None else optimizer.state.get(parameter):
            yield name, optimizer, parameter


def _untrained(state: TrainingState) -> Iterator[tuple[str, Tensor]]:
    trained = {id(p) for p in state.parameters}
    for prefix, model in state.named_models():
        own = {id(t) for t in (*model.parameters(), *model.buffers())}
        for name, value in model.state_dict(keep_vars=True).items():
            if id(value) in own and id(value) not in trained:
                yield f"{prefix}{name}", value.detach()
    yield from _loose(state)


def _loose(state: TrainingState) -> list[tuple[str, Tensor]]:
    trained = {id(p) for p in state.parameters}
    return [(name, p.detach()) for name, p in state.loose.items() if id(p) not in trained]


def _rest_of_model(state: TrainingState, place: int, fixed: Collection[str]) -> Packed:
    """Return a model's `state_dict` without trained parameters and tensors sent before."""
    prefix, model = list(state.named_models())[place]
    trained = {id(p) for p in state.parameters}  # by identity: a tied one has several names
    return {
        name: value
        for name, value in model.state_dict(keep_vars=True).items()
        if id(value) not in trained and f"{prefix}{name}" not in fixed
    }


def _own_of(optimizer: Any) -> Packed:
    """Return what an optimiser keeps outside of its parameters' state and its settings."""
    told = optimizer.state_dict() if type(optimizer).state_dict is not _PLAIN else {}
    return {
        "common": {key: value for key, value in optimizer.state.items() if isinstance(key, str)},
        "told": {key: told[key] for key in told if key not in ("state", "param_groups")},
    }


_PLAIN = torch.optim.Optimizer.state_dict


def _set_own(optimizer: Any, own: Packed) -> None:
    optimizer.state.update(own["common"])
    if own["told"]:
        optimizer.load_state_dict({**optimizer.state_dict(), **own["told"]})
