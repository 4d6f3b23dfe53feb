"""What users keep beside model and optimiser: averages, scalers, schedules, counters.

It goes to joiners and into checkpoints. Methods that would count a lost step twice are guarded: a step
that is redone runs the user's loop again from the top.
"""

import gc
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.swa_utils import AveragedModel

from muster.runtime.errors import BadTrainingError
from muster.runtime.state.state import TrainingState
from muster.runtime.state.tree import describe
from muster.runtime.user.failures import say
from muster.runtime.user.gradients import Guarded, StepGradients

SCALER_METHODS = ("unscale_", "step", "update")


class KeptThings:
    """The user's own objects, by name."""

    def __init__(self, gradients: StepGradients) -> None:
        self._gradients = gradients
        self.things: dict[str, Any] = {}

    def add(self, things: Mapping[str, Any]) -> None:
        """Keep objects; `BadTrainingError` if one has no state to keep."""
        for name, thing in things.items():
            if name in self.things:
                raise BadTrainingError(
                    f"keep({name}=...) was called twice: give each object its own name"
                )
            _check_keepable(name, thing)
            self.things[name] = thing
            self._guard(thing)

    def find(self, state: TrainingState) -> None:
        """Adopt what the script made and handed to nobody: schedules, a scaler, an average."""
        known = {id(each) for each in (*state.schedulers, *self.things.values())}
        known |= {id(module) for model in state.models for module in model.modules()}
        found = [each for each in _objects(state) if id(each) not in known]
        self._adopt_schedules(state, [each for each in found if isinstance(each, LRScheduler)], known)
        for kind in (GradScaler, AveragedModel):
            self._adopt_one(kind, [each for each in found if _is_used(each, kind)])
        for scheduler in state.schedulers:
            self._guard(scheduler)

    def _adopt_schedules(self, state: TrainingState, found: list[LRScheduler], known: set[int]) -> None:
        inside = {id(part) for each in _schedulers_in(found, state, self.things) for part in each}
        loose = [each for each in found if id(each) not in inside]
        for optimizer in state.optimizers:
            mine = [each for each in loose if each.optimizer is optimizer]
            if len(mine) > 1:
                names = ", ".join(type(each).__name__ for each in mine)
                raise BadTrainingError(
                    f"{names} change one optimiser's rate: hand them to ctx.wrap(model, optimizer, "
                    "[...]) or keep them by name, so that their order is known"
                )
            state.schedulers += mine

    def _adopt_one(self, kind: type, found: list[Any]) -> None:
        name = kind.__name__
        if len(found) > 1:
            say(f"{len(found)} objects of type {name} are kept by nobody: ctx.keep(first=..., ...)")
        elif found:
            self.add({name: found[0]})

    def _guard(self, thing: Any) -> None:
        """Guard the methods that count steps."""
        if _is_used(thing, GradScaler):
            for name in SCALER_METHODS:
                _replace(thing, name, ScalerGuard(self._gradients, thing, steps=name == "step"))
        elif isinstance(thing, LRScheduler):
            _replace(thing, "step", OncePerStep(self._gradients))
            if not isinstance(thing.state_dict, UnguardedState):
                thing.state_dict = UnguardedState(thing.state_dict)


class UnguardedState:
    """A schedule's `state_dict` without our wrappers of its methods: users save and load it."""

    def __init__(self, method: Callable[[], dict[str, Any]]) -> None:
        self._method = method

    def __call__(self) -> dict[str, Any]:
        ours = Guarded, UnguardedState
        return {key: value for key, value in self._method().items() if not isinstance(value, ours)}


class ScalerGuard:
    """Keeps a scaler out of void steps, and ready on a worker that has not scaled anything yet."""

    def __init__(self, gradients: StepGradients, scaler: GradScaler, steps: bool) -> None:
        """`steps`: of the method that updates."""
        self._gradients, self._scaler, self._steps = gradients, scaler, steps

    def __call__(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        engine = self._gradients.engine
        if engine is None:
            return method(*args, **kwargs)
        if self._gradients.is_pending:
            engine.learn()
        if engine.void:
            self._scaler._per_optimizer_states.clear()  # whatever it has done in this step
            self._gradients.applied = False
            return None
        if engine.is_applied:  # in an earlier run of this step
            self._gradients.leave_out()
            return None
        self._scaler.scale(torch.zeros((), device=engine.device))  # torch makes its tensors here
        result = method(*args, **kwargs)
        if self._steps:
            self._gradients.leave_out()  # unless it has called the optimiser
        return result


class OncePerStep:
    """Lets a method's calls through as often as one run of a step makes them, even if it is redone."""

    def __init__(self, gradients: StepGradients) -> None:
        self._gradients = gradients
        self.step = -1
        """The step of the last call."""
        self.done = 0
        """Calls let through in that step."""
        self._run = -1
        self._seen = 0
        """Calls in the current run of that step."""

    def __call__(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        engine = self._gradients.engine
        if engine is None:
            return method(*args, **kwargs)
        if engine.void:
            return None
        self._follow(engine.state.position.step, self._gradients.runs)
        self._seen += 1
        if self._seen <= self.done:
            return None
        self.done += 1
        return method(*args, **kwargs)

    def _follow(self, step: int, run: int) -> None:
        if step != self.step:
            self.step, self.done = step, 0
        if run != self._run:
            self._run, self._seen = run, 0


def _check_keepable(name: str, thing: Any) -> None:
    if not (hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")):
        raise BadTrainingError(
            f"keep({name}=...): a {type(thing).__name__} has no state_dict() and load_state_dict() for "
            "a new worker to get: write both, or keep what it holds (a module, an optimiser); what has "
            "no state, as a writer of logs, is opened under `if ctx.primary`"
        )
    if isinstance(thing, LRScheduler):
        return
    describe(thing.state_dict(), [], f"keep({name}=...): its state")


def _replace(thing: Any, name: str, guard: Callable[..., Any]) -> None:
    method = getattr(thing, name)
    if not isinstance(method, Guarded):
        setattr(thing, name, Guarded(method, guard))


def _objects(state: TrainingState) -> list[Any]:
    """Return this process's schedules and scalers, and averages of a training's models."""
    kinds = (LRScheduler, GradScaler, AveragedModel)
    gc.collect()  # what an earlier training of this process has left behind
    found = [each for each in gc.get_objects() if issubclass(type(each), kinds)]
    names = [list(model.state_dict()) for model in state.models]
    return [
        e for e in found if not isinstance(e, AveragedModel) or list(e.module.state_dict()) in names
    ]


def _is_used(thing: Any, kind: type) -> bool:
    """Whether it is of this kind; a scaler that is switched off only calls the optimiser."""
    return isinstance(thing, kind) and (not isinstance(thing, GradScaler) or thing.is_enabled())


def _schedulers_in(
    found: Iterable[Any], state: TrainingState, things: Mapping[str, Any]
) -> Iterable[Iterable[Any]]:
    """Return the schedules inside of others (SequentialLR, ChainedScheduler)."""
    every = [*found, *state.schedulers, *things.values()]
    return (getattr(each, "_schedulers", ()) for each in every)
