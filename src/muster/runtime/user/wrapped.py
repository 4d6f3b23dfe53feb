"""What may be handed to `ctx.wrap`, and what must be."""

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from muster.runtime.errors import BadTrainingError
from muster.runtime.state.state import TrainingState
from muster.runtime.step.engine import StepEngine


def check_wrapped(before: TrainingState | None, model: Any, optimizers: Sequence[Any]) -> None:
    """Raise if a model and its optimisers cannot be trained beside what was wrapped before."""
    if before is not None and any(model is other for other in before.models):
        raise BadTrainingError("this model was wrapped before: give it all its optimisers at once")
    trained = [p for p in model.parameters() if p.requires_grad]
    held = [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    if optimizers and not trained:
        raise BadTrainingError("the model has no parameters to train")
    if optimizers and not {id(p) for p in trained} & {id(p) for p in held}:
        raise BadTrainingError("the optimiser holds none of the model's parameters")
    taken = {id(p) for p in before.parameters if before.optimizer_of(p)} if before else set()
    if len({id(p) for p in held} - taken) < len(held):
        raise BadTrainingError(
            "two optimisers hold the same parameter: each parameter is updated by one of them"
        )
    if any(type(optimizer).__name__ == "LBFGS" for optimizer in optimizers):
        raise BadTrainingError("LBFGS evaluates the loss many times per step and cannot be distributed")


def move_loose(optimizers: Sequence[Any], device: torch.device) -> None:
    """Move parameters that only an optimiser knows (learnt loss weights) to where the model is."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.data = parameter.data.to(device)


def refuse_unwrapped(engine: StepEngine) -> None:
    """Raise if an optimiser that was not wrapped updates in a step: its gradients are one worker's."""
    training = weakref.ref(engine)

    def check(optimizer: Any, *_: Any) -> None:
        engine = training()
        if engine is None or not engine.buckets.watching:
            return
        if any(optimizer is other for other in engine.state.optimizers):
            return
        held = [p for group in optimizer.param_groups for p in group["params"]]
        trained = [p for p in held if p.requires_grad and p.grad is not None]
        if trained:
            raise BadTrainingError(
                f"{type(optimizer).__name__} updates {_called(engine.state, trained[0])}, but ctx.wrap "
                "was not given this optimiser: its gradients would be this worker's own; wrap it with "
                "its model before ctx.steps()"
            )

    weakref.finalize(engine, register_optimizer_step_pre_hook(check).remove)


def _called(state: TrainingState, parameter: Any) -> str:
    names = zip(state.names, state.parameters, strict=True)
    found = next((name for name, other in names if other is parameter), None)
    return found or f"a tensor of shape {list(parameter.shape)}"
