"""Dike's Context (seed 000): the shape of a training, captured without a device, sent once.

First on meta tensors (shapes without numbers); with a tiny batch if the model looks at its numbers;
from the parameters alone if that fails too. Model, gradients, hooks and random generators are left
unchanged.
"""

import copy
import random
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from muster.runtime.shape.trace import OTHER, Forward, Step, mapped, tensors, watch

META, TINY, PARAMETERS = "meta", "tiny batch", "parameters only"

_MILLIONTH = 1e-6
"""The least `ready`: no gradient is ready before the backward pass begins."""

_NOTHING = Step({}, 0, (), 0)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter tensor, and the fraction of the backward pass (in FLOP) after which its gradient is
    ready; 0 if it is not trained."""

    name: str
    count: int
    bytes: int
    type: str
    ready: float


@dataclass(frozen=True, slots=True)
class Context:
    """The shape of a training; parameters in the order their gradients become ready."""

    parameters: tuple[Parameter, ...]
    layers: tuple[tuple[str, int], ...]
    """Number of layers by class."""
    kinds: tuple[tuple[str, float], ...]
    """Share of the operations by kind of layer (the words of model/profile.py)."""
    operations: float
    """FLOP of the forward pass per sample; a multiply-add counts as two."""
    activations: int
    """Bytes kept for the backward pass, per sample."""
    samples: int
    """Samples of the dataset."""
    sample_bytes: int
    how: str
    """"meta", "tiny batch" or "parameters only"."""
    why: str = ""
    """Why a better way failed."""
    micro_batch: int = 0
    """Most samples that are computed at once; 0: all of a worker's share."""


def order(context: Context) -> tuple[str, ...]:
    """Return the trained parameters in the order their gradients become ready."""
    return tuple(each.name for each in context.parameters if each.ready > 0)


def capture(
    model: nn.Module, forward: Forward, sample: Any, dataset_size: int, sample_bytes: int
) -> Context:
    """Capture the shape of a training; `sample` is a batch of two or so. Never raises."""
    step, operations, activations, how, why = _tried(model, forward, sample)
    total = sum(operations.values())
    return Context(
        parameters=_parameters(model, step),
        layers=_layers(model),
        kinds=tuple((kind, count / total) for kind, count in sorted(operations.items()) if count),
        operations=float(total),
        activations=round(activations),
        samples=dataset_size,
        sample_bytes=sample_bytes,
        how=how,
        why=why,
    )


_Shape = tuple[Step | None, dict[str, float], float, str, str]
"""A step, FLOP by kind and bytes kept per sample, how they were found and why not otherwise."""


def _tried(model: nn.Module, forward: Forward, sample: Any) -> _Shape:
    ways: tuple[tuple[str, Callable[[], Any]], ...] = (
        (META, lambda: _on_meta(model, forward, sample)),
        (TINY, lambda: _with_numbers(model, forward, sample)),
    )
    reasons: list[str] = []
    for how, way in ways:
        try:
            with _untouched(model), _quiet():
                step, operations, activations = way()
            return step, operations, activations, how, "; ".join(reasons)
        except Exception as problem:  # user code on unexpected tensors may raise anything
            reason = f"{how}: {type(problem).__name__}: {problem}"
            reasons.append(" ".join(reason.split())[:200])
    # A multiply-add per parameter, as in a dense network with one row.
    operations = {OTHER: 2.0 * sum(each.numel() for _, each in _named(model))}
    return None, operations, 0.0, PARAMETERS, "; ".join(reasons)


def _on_meta(model: nn.Module, forward: Forward, sample: Any) -> Any:
    shadow = _copied(model, lambda tensor: tensor.to("meta"))
    with torch.device("meta"):  # so that tensors made by the model are meta too
        return _measured(shadow, forward, mapped(sample, lambda tensor: tensor.detach().to("meta")))


def _with_numbers(model: nn.Module, forward: Forward, sample: Any) -> Any:
    try:
        twin = _copied(model, torch.clone)
    except Exception:  # it holds a lock, a file or a process
        return _in_place(model, forward, sample)
    return _measured(twin, forward, sample)


def _in_place(model: nn.Module, forward: Forward, sample: Any) -> Any:
    """Use the model itself if it cannot be copied; restore its buffers."""
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        return _measured(model, forward, sample)
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in kept:
                    buffer.copy_(kept[name])


def _measured(model: nn.Module, forward: Forward, sample: Any) -> tuple[Step, dict[str, float], float]:
    """Return a step, and FLOP by kind and bytes kept per sample."""
    step, shape = watch(model, forward, sample, backward=True)
    if not step.ready:
        raise ValueError("no parameter got a gradient")
    size = shape[0] if shape else tensors(sample)[0].shape[0]
    twice = mapped(sample, lambda each: torch.cat([each, each]) if each.shape[:1] == (size,) else each)
    try:
        before, after = step, watch(model, forward, twice, backward=False)[0]
    except Exception:  # a model for this batch size only: count all of it
        before, after = _NOTHING, step
    # What does not depend on the batch (masks, casts of weights) cancels out.
    operations = {
        kind: max(0, count - before.operations.get(kind, 0)) / size
        for kind, count in after.operations.items()
    }
    return step, operations, max(0, after.kept - before.kept) / size


class _Copying(TorchFunctionMode):
    """Copies tensors in our own way during `deepcopy`, including non-leaf ones."""

    def __init__(self, place: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._place = place

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__deepcopy__:
            return self._place(args[0].detach())
        return func(*args, **(kwargs or {}))


def _copied(model: nn.Module, place: Callable[[Tensor], Tensor]) -> nn.Module:
    """Copy a model with its tensors elsewhere; keeps tied parameters tied."""
    memo: dict[int, Any] = {
        id(each): nn.Parameter(place(each.detach()), each.requires_grad) for each in model.parameters()
    }
    with _Copying(place):
        twin = copy.deepcopy(model, memo)
    for module in twin.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks):
            for key, hook in list(hooks.items()):
                if isinstance(hook, types.FunctionType):  # it writes to the user's lists and logs
                    del hooks[key]
    return twin


@contextmanager
def _untouched(model: nn.Module) -> Iterator[None]:
    """Restore gradients and random generators afterwards."""
    gradients = [(each, each.grad) for each in model.parameters()]
    devices = sorted({each.device.index for each, _ in gradients if each.device.type == "cuda"})
    python = random.getstate()
    try:
        for each, _ in gradients:
            each.grad = None
        with torch.random.fork_rng(devices=devices), torch.enable_grad():
            yield
    finally:
        random.setstate(python)
        for each, gradient in gradients:
            each.grad = gradient


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings, and compilation for one-time shapes."""
    compiled = "torch._dynamo" in sys.modules  # importing it is slow
    eager = torch.compiler.set_stance("force_eager") if compiled else nullcontext()
    with warnings.catch_warnings(), eager:
        warnings.simplefilter("ignore")
        yield


def _parameters(model: nn.Module, step: Step | None) -> tuple[Parameter, ...]:
    """In order of readiness; then those without a gradient, then untrained ones."""
    named = dict(_named(model))
    trained = [name for name, each in named.items() if each.requires_grad]
    found = _fractions(step) if step else _guessed([(name, named[name].numel()) for name in trained])
    ready = {name: at for name, at in found.items() if name in named}
    ready |= {name: 1.0 for name in trained if name not in ready}
    ready |= {name: 0.0 for name in named if name not in ready}
    return tuple(
        Parameter(name, p.numel(), p.nbytes, str(p.dtype).removeprefix("torch."), ready[name])
        for name, p in ((name, named[name]) for name in ready)
    )


def _fractions(step: Step) -> dict[str, float]:
    """FLOP done over the whole backward pass; without any (embeddings), by count."""
    if not step.backward:
        return {name: (place + 1) / len(step.ready) for place, (name, _) in enumerate(step.ready)}
    return {name: max(done / step.backward, _MILLIONTH) for name, done in step.ready}


def _guessed(named: list[tuple[str, int]]) -> dict[str, float]:
    """Last parameter first, in proportion to size: true of dense networks."""
    total, done, ready = sum(count for _, count in named), 0, {}
    for name, count in reversed(named):
        done += count
        ready[name] = max(done / total, _MILLIONTH) if total else 1.0
    return ready


def _named(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Return parameters that have a shape (lazy ones get theirs at the first step)."""
    lazy = nn.parameter.UninitializedParameter
    return [(name, each) for name, each in model.named_parameters() if not isinstance(each, lazy)]


def _layers(model: nn.Module) -> tuple[tuple[str, int], ...]:
    """Count the leaf modules by class."""
    leaves = (each for each in model.modules() if next(each.children(), None) is None)
    return tuple(sorted(Counter(type(each).__name__ for each in leaves).items()))
