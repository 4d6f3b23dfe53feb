"""Everything of a training's state that must be the same on all members, by names that users know."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from muster.runtime.state.hyper import hyper_of
from muster.runtime.state.kept_values import kept_value, schedule_value
from muster.runtime.state.state import TrainingState


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One part of the state: what kind it is of, its name, and how to look at it."""

    kind: str
    """"parameter", "buffer", "optimiser", "setting", "schedule" or "kept"."""
    name: str
    value: Callable[[], Any]


CAUSES = {
    "parameter": (
        "a parameter was changed outside of the optimiser on some workers only, or from something "
        "that differs between them (a random number, the worker's own samples)"
    ),
    "buffer": (
        "the forward pass changes it from each worker's own samples: sum it over the workers, or take "
        "it out of the state with persistent=False if each may have its own"
    ),
    "optimiser": "gradients were changed after ctx.backward() on some workers only",
    "setting": "it was set on some workers only (if ctx.primary: ...): set it on all",
    "schedule": "it was stepped on some workers only, or with a metric that differs between them",
    "structure": "their scripts train or keep different things",
    "kept": "it was changed on some workers only (if ctx.primary: ...), or from their own samples",
}
"""What usually makes an entry of a kind differ."""


def entries(state: TrainingState, sharded: bool = False) -> Iterator[StateEntry]:
    """Return the state's entries, in the same order on all members.

    `sharded`: owners update, so that nobody has the whole optimiser's state.
    """
    for name, parameter in () if state.in_parts else state.all_parameters():
        yield StateEntry("parameter", name, partial(_same, parameter))
    yield from _buffers(state)
    for name, parameter in (
        () if sharded or state.in_parts else zip(state.names, state.parameters, strict=True)
    ):
        optimizer = state.optimizer_of(parameter)
        if optimizer is None:
            continue
        for key in sorted(optimizer.state.get(parameter, {}), key=str):
            yield StateEntry("optimiser", f"{key} of {name}", _looked_up(optimizer, parameter, key))
    yield StateEntry("setting", "", lambda: _settings(state))
    for i, scheduler in enumerate(state.schedulers):
        yield StateEntry("schedule", f"schedule {i}", partial(schedule_value, scheduler))
    for name, thing in sorted(state.kept.items()):
        if not getattr(thing, "differs", False):  # times in a framework's log are each worker's own
            yield StateEntry("kept", name, partial(kept_value, thing))


def _same(value: Any) -> Any:
    return value


def _looked_up(optimizer: Any, parameter: Any, key: Any) -> Callable[[], Any]:
    """An optimiser may replace its tensors."""
    return lambda: optimizer.state.get(parameter, {}).get(key)


def _settings(state: TrainingState) -> dict[str, Any]:
    """Return the hyper-parameters by name and group, and numbers of the optimisers' own."""
    hyper = hyper_of(state)
    groups = {
        f"{key} of parameter group {number}": value
        for number, group in enumerate(hyper["groups"])
        for key, value in group.items()
    }
    own = {
        f"{name} of {type(optimizer).__name__}": value
        for optimizer, numbers in zip(state.optimizers, hyper["own"], strict=True)
        for name, value in numbers.items()
    }
    return groups | own


def _buffers(state: TrainingState) -> Iterator[StateEntry]:
    """Return the buffers that are part of the state; a module may replace them."""
    for prefix, model in state.named_models():
        for path, module in model.named_modules():
            if _has_own_statistics(module):
                continue
            for name, buffer in module._buffers.items():
                if buffer is not None and name not in module._non_persistent_buffers_set:
                    full = prefix + ".".join(filter(None, (path, name)))
                    yield StateEntry("buffer", full, partial(module._buffers.get, name))


def _has_own_statistics(module: Any) -> bool:
    """Whether a module's buffers are each worker's own: BatchNorm and its like."""
    return isinstance(module, nn.modules.batchnorm._NormBase) or hasattr(module, "running_mean")
