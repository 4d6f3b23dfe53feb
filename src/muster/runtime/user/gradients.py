"""Between a batch and its update: the user's losses, their gradients, and the optimiser's step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from muster.runtime.data.feed import StepPart
from muster.runtime.errors import BadTrainingError, BrokenGroupError
from muster.runtime.step.device import DeviceNumber
from muster.runtime.step.engine import StepEngine

FITS = 0.75
"""Factor for the next try when a share did not fit into memory: allocators need headroom."""


class Gradients:
    """One worker's gradients of the current step."""

    def __init__(self) -> None:
        self.allow_unused = False
        """Whether parameters without a gradient are left alone, as in plain training."""
        self.engine: StepEngine | None = None
        """Set when training begins."""
        self.part = StepPart(0, 0, 0)
        self.runs = 0
        """Runs of the loop so far: a redone step is another one."""
        self.applied = False
        """Whether the last run of the loop counted, or the current one once its update is done."""
        self._summed = self._applied = False
        self._fitted = 0
        """The largest share that has fitted into memory."""

    def begin(self, part: StepPart) -> None:
        """Begin a step with this worker's samples."""
        self.runs, self.applied = self.runs + 1, self._applied
        self.part = part
        self._summed = self._applied = False

    def check_summed(self) -> None:
        """Raise if the loop took a batch and did nothing with it."""
        if not self._summed:
            raise BadTrainingError("the loop took a batch and did not call ctx.backward(losses)")

    def check_applied(self) -> None:
        """Raise if the loop left its gradients unused."""
        if not self._applied:
            raise BadTrainingError("the loop called ctx.backward() but not optimizer.step()")

    def note_fitted(self) -> None:
        """Remember that this step's share fitted into memory."""
        self._fitted = max(self._fitted, self.part.count)

    def backward(self, losses: Tensor) -> None:
        """Compute the gradients of the mean loss over the global batch, summed over all workers."""
        engine = self.engine
        if engine is None:
            raise BadTrainingError("backward() belongs inside `for batch in ctx.steps()`")
        if self._summed:
            raise BadTrainingError("backward() was called twice in one step")
        engine.stopwatch.mark()
        loss = self._differentiate(engine, losses) if self.part.count else 0.0
        engine.keep_pace()
        engine.stopwatch.mark()
        self._summed = True
        engine.sum(loss)
        self._check_used(engine)

    def attempt(self, forward: Callable[[], Tensor]) -> None:
        """Call `backward(forward())`; if memory is too small, redo the step with a smaller share."""
        try:
            self.backward(forward())
        except torch.OutOfMemoryError as problem:
            self._shrink(problem)

    def update(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Replace the user's optimizer.step(): skip it if the step is void."""
        engine = self.engine
        if engine is None:
            return step(*args, **kwargs)
        if not self._summed:
            raise BadTrainingError("optimizer.step() was called before ctx.backward(losses)")
        self.applied = not engine.void
        if engine.void:
            return None
        if engine.updates:
            engine.owned.commit()
            self._applied = engine.state.optimizer._opt_called = True  # torch's schedulers check it
            return None
        hidden = engine.before_update()
        self.applied = not engine.void
        if engine.void:
            return None
        parameters = engine.buckets.parameters
        kept = {index: parameters[index].grad for index in hidden}
        for index in hidden:
            parameters[index].grad = None
        result = step(*args, **kwargs)
        for index, grad in kept.items():
            parameters[index].grad = grad
        self._applied = True
        return result

    def unless_void(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Replace the user's scheduler.step(): skip it if the step is void."""
        return None if self.engine is not None and self.engine.void else step(*args, **kwargs)

    def _shrink(self, problem: torch.OutOfMemoryError) -> None:
        """Tell the others with the next ballot how much fits; the step is void."""
        engine, count = self.engine, self.part.count
        assert engine is not None
        if count <= 1:
            raise BadTrainingError("not even one sample fits into this device's memory") from problem
        # Never go below a share that has fitted.
        engine.cap = max(1, int(count * FITS), self._fitted if self._fitted < count else 0)
        self._summed = True
        engine.sum(0.0, failed=True)

    def _differentiate(self, engine: StepEngine, losses: Tensor) -> float:
        """Run the backward pass; return the sum of the losses."""
        self._check_losses(losses)
        total = losses.sum()
        value = DeviceNumber(total.detach())
        try:
            (total / self.part.total).backward()
        except BrokenGroupError:
            engine.lose()
        return value.get()

    def _check_losses(self, losses: Tensor) -> None:
        count = self.part.count
        if not isinstance(losses, Tensor) or losses.dim() == 0:
            raise BadTrainingError(
                f"the loss is one number for {count} samples: return one for each of them "
                '(reduction="none"), so that unequal shares of the batch get the right weight'
            )
        if losses.shape[0] != count:
            raise BadTrainingError(
                f"the losses have shape {list(losses.shape)} for {count} samples: return one for each, "
                "the mean over everything but the first dimension"
            )
        if losses.dim() != 1:
            raise BadTrainingError(
                f"the losses have shape {list(losses.shape)}: return one number for each sample, "
                "e.g. losses.flatten(1).mean(1)"
            )

    def _check_used(self, engine: StepEngine) -> None:
        if self.allow_unused or engine.void:
            return
        unused = [engine.state.names[index] for index in engine.unused()]
        if unused:
            raise BadTrainingError(
                f"no gradient reached {', '.join(unused[:5])}{' ...' if len(unused) > 5 else ''}: "
                "take them out of the model, or pass allow_unused=True to leave them as they are"
            )


class Guarded:
    """Wraps a bound method in a check."""

    def __init__(self, method: Callable[..., Any], guard: Callable[..., Any]) -> None:
        self._method, self.guard = method, guard
        self.__self__ = getattr(method, "__self__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.guard(self._method, *args, **kwargs)

    @property
    def __func__(self) -> Callable[..., Any]:
        """A schedule that is made later calls this in its own wrapper of `optimizer.step`."""
        return lambda _, *args, **kwargs: self(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Show what torch's schedules leave on a method."""
        if name.startswith("__") or name == "_method":
            raise AttributeError(name)
        return getattr(self._method, name)
