"""Between a batch and its update: the user's losses, their gradients, and the optimiser's step."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from muster.runtime.data.feed import StepPart
from muster.runtime.errors import BadTrainingError, BrokenGroupError
from muster.runtime.members.ballot import Ours
from muster.runtime.state.state import as_list
from muster.runtime.step.device import DeviceNumber
from muster.runtime.step.engine import StepEngine
from muster.runtime.user.losses import check_losses, weight_of
from muster.runtime.user.lr_scale import AUTO, LrScale, factor_of, scaled
from muster.runtime.user.parts import rows_of, split

FITS = 0.75
"""Factor for the next try when a share did not fit into memory: allocators need headroom."""


class StepGradients:
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
        self.micro: int | None = None
        """Samples of a micro-batch; None: a share is one batch."""
        self.lr_scale: LrScale = AUTO
        """What a larger batch does to the learning rate."""
        self._rows = 0
        """Samples of the micro-batch under way; 0: there is none."""
        self._more = False
        """Whether micro-batches follow that belong to the same sum."""
        self._stands_in = False
        """Whether the micro-batch is there only for workers that have more of them."""
        self._called = False
        """Whether the loop did anything with its batch."""
        self._summed = self._applied = False
        """Whether the current phase has gradients; whether it is applied."""
        self._ours: Ours | None = None
        """What this worker adds to the sum under way."""
        self._reached: set[int] = set()
        """Parameters that got a gradient in this step."""
        self._hidden: list[int] = []
        """Parameters that a joiner must not update in this phase."""
        self._fitted = 0
        """The largest share that has fitted into memory."""

    def begin(self, part: StepPart) -> None:
        """Begin a step with this worker's samples."""
        self.runs, self.applied = self.runs + 1, self._applied
        self.part, self._ours, self._reached, self._hidden = part, None, set(), []
        self._called = self._summed = self._applied = self._more = False
        self._rows = 0

    @property
    def is_called(self) -> bool:
        """Whether the loop did anything with its batch."""
        return self._called

    @property
    def is_pending(self) -> bool:
        """Whether the current phase is summed and not applied."""
        return self._summed and not self._applied

    def check_summed(self) -> None:
        """Raise if the loop took a batch and did nothing with it."""
        if not self._called:
            raise BadTrainingError("the loop took a batch and did not call ctx.backward(losses)")

    def check_applied(self) -> None:
        """Raise if the loop left its gradients unused, unless they overflowed."""
        engine = self._training()
        if self._applied or engine.is_applied:
            return
        if not engine.skipping and all(bool(p.grad.isfinite().all()) for p in self._with_gradient()):
            raise BadTrainingError(
                "the loop called ctx.backward() but not optimizer.step(); "
                "to leave out an update, call ctx.skip() on every worker"
            )
        self._apply(engine)

    def note_fitted(self) -> None:
        """Remember that this step's share fitted into memory."""
        self._fitted = max(self._fitted, self.part.count)

    # the user's calls

    def parts(self, batch: Any) -> Iterator[Any]:
        """Yield a batch in micro-batches; their gradients are summed with the last one's."""
        if self.micro is None:
            yield batch
            return
        rows, size = rows_of(batch), self.micro
        yield from self.cut(batch, [min(size, rows - first) for first in range(0, rows, size)])

    def cut(self, batch: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """Yield a batch in parts of these sizes; their gradients are summed with the last one's."""
        rounds = self.engine.rounds(len(sizes)) if self.engine is not None else len(sizes)
        rows, first = sum(sizes), 0
        try:
            for number in range(rounds):
                self._more, self._stands_in = number + 1 < rounds, number >= len(sizes)
                if self._stands_in:
                    first -= self._rows
                else:
                    self._rows = sizes[number]
                yield split(batch, rows, first, first + self._rows)
                first += self._rows
        finally:
            self._rows, self._more, self._stands_in = 0, False, False

    def backward(
        self, losses: Tensor, weight: Any = None, optimizer: Any = None, scaler: Any = None
    ) -> None:
        """Compute the gradients of the mean loss over the global batch, summed over all workers."""
        engine = self._enter()
        if scaler is not None and not self.part.count:
            scaler.scale(losses.detach())  # its step() asks whether it has scaled anything
        if engine.void or engine.is_applied:
            self._pretend(engine)
            return
        if engine.updates and (weight is not None or optimizer is not None):
            raise BadTrainingError(
                'weight= and optimizer= need gradients that owners do not have: use owners="reduce"'
            )
        if engine.is_changed:
            self._give_up(engine, Ours(failed=True, layout=engine.state.change()))
            return
        chosen = self._chosen(engine, optimizer)
        if self._ours is None:
            engine.begin_sum(chosen)
            self._ours = Ours(scaled=scaler is not None)
        engine.stopwatch.mark()
        if engine.exchanged and self._rows and self._rows < self.part.count:
            raise BadTrainingError(
                "SyncBatchNorm and ctx.gather() need a worker's samples at once: leave out micro_batch"
            )
        if (self.part.count or engine.exchanged or not engine.whole) and not engine.void:
            self._differentiate(engine, losses, weight, chosen, scaler)
        engine.keep_pace()
        engine.stopwatch.mark()
        if not self._more:
            self._sum(engine, self._ours)

    def skip(self) -> None:
        """Let no worker update in this phase; its samples count as seen."""
        engine = self._enter()
        if engine.void or engine.is_applied:
            self._pretend(engine)
        elif self._summed:
            engine.skipping = True
        elif engine.is_changed:
            self._give_up(engine, Ours(failed=True, layout=engine.state.change()))
        else:
            self._give_up(engine, Ours(skip=True))

    def clip(self, max_norm: float) -> float:
        """Scale the summed gradients down to a norm; return their norm before."""
        engine = self._training()
        if not self._summed:
            raise BadTrainingError(
                "ctx.clip(max_norm) belongs between ctx.backward() and optimizer.step()"
            )
        return 0.0 if engine.void or engine.is_applied else engine.clip(max_norm)

    def attempt(self, forward: Callable[[], Tensor], **options: Any) -> None:
        """Call `backward(forward())`; if memory is too small, redo the step with fewer samples."""
        try:
            self.backward(forward(), **options)
        except torch.OutOfMemoryError as problem:
            self._shrink(problem)

    def update(self, optimizer: Any, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Replace the user's optimizer.step(): apply the sum, and nothing if the step is void."""
        engine = self.engine
        if engine is None:
            return step(*args, **kwargs)
        if not self._summed:
            raise BadTrainingError("optimizer.step() was called before ctx.backward(losses)")
        self.applied = not engine.void
        if engine.void:
            return None
        if engine.is_applied:
            self._applied = True
            return None
        self._check_used(engine, optimizer)
        if not self._applied:
            self._apply(engine)
        self.applied = not engine.void
        if engine.void or engine.skipping or engine.updates:
            optimizer._opt_called = True  # torch's schedulers check it
            return None
        return self._step(engine, optimizer, step, *args, **kwargs)

    def leave_out(self) -> None:
        """Count a phase although nobody has called the optimiser: its gradients overflowed."""
        engine = self._training()
        if self.is_pending and engine.is_applied:
            self._applied = True
        elif self.is_pending and not engine.void:
            self._apply(engine)
        self.applied = not engine.void

    def add_group(self, optimizer: Any, add: Callable[..., Any], group: dict[str, Any]) -> Any:
        """Replace the user's optimizer.add_param_group(): a redone step has done it before."""
        new = group["params"]
        held = {id(p) for other in optimizer.param_groups for p in other["params"]}
        if self.engine is not None and all(id(p) in held for p in as_list(new)):
            return None
        return add(group)

    def unless_void(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Replace the user's scheduler.step(): skip it if the step is void."""
        return None if self.engine is not None and self.engine.void else step(*args, **kwargs)

    # sums

    def _training(self) -> StepEngine:
        if self.engine is None:
            raise BadTrainingError("backward() belongs inside `for batch in ctx.steps()`")
        return self.engine

    def _enter(self) -> StepEngine:
        """Begin what follows the last call: after an update, the next phase."""
        engine = self._training()
        if self._applied:
            engine.next_phase()
            self._summed = self._applied = False
        self._called = True
        return engine

    def _pretend(self, engine: StepEngine) -> None:
        """Go on as if there were gradients: this phase is void, or was applied before."""
        self._summed = True
        for parameter in engine.buckets.parameters:
            if parameter.grad is None:  # a scaler asks for some
                parameter.grad = torch.zeros_like(parameter)

    def _chosen(self, engine: StepEngine, optimizer: Any) -> list[int] | None:
        """Return the parameters of an optimiser; None: all of them."""
        if optimizer is None:
            return None
        state = engine.state
        if not any(optimizer is other for other in state.optimizers):
            raise BadTrainingError("ctx.backward(optimizer=...) names one that ctx.wrap was not given")
        return [i for i, p in enumerate(state.parameters) if state.optimizer_of(p) is optimizer]

    def _differentiate(
        self,
        engine: StepEngine,
        losses: Tensor,
        weight: Any,
        chosen: Collection[int] | None,
        scaler: Any,
    ) -> None:
        """Run the backward pass; note the sums of the losses and their weights."""
        counts = self.part.count > 0 and not self._stands_in
        if not counts:  # for those who wait in its backward pass
            losses, weight = losses * 0.0, 0.0
        count = self._rows or self.part.count or len(losses)
        check_losses(losses, count, weight is not None)
        total = losses.sum()
        value, weighs = DeviceNumber(total.detach()), weight_of(weight, count)
        inputs = None if chosen is None else [engine.buckets.parameters[index] for index in chosen]
        with engine.buckets.differentiating(last=not self._more, counts=counts):
            try:
                for part, again in self._summands(engine, losses):
                    mean = part.sum() / self.part.total
                    scaled_mean = mean if scaler is None else scaler.scale(mean)
                    scaled_mean.backward(inputs=inputs, retain_graph=again)
                    self._probe(engine, len(part))
            except BrokenGroupError:
                engine.lose()
        ours = self._ours
        assert ours is not None
        self._ours = replace(ours, loss=ours.loss + value.get(), weight=ours.weight + weighs.get())

    def _summands(self, engine: StepEngine, losses: Tensor) -> list[tuple[Tensor, bool]]:
        """Return the losses to differentiate, and whether more follow from the same graph.

        A single worker that measures the noise does one half by itself, unless micro-batches do that.
        """
        halves = self._measures(engine) and not self._rows and losses.shape[0] > 1
        if not halves:
            return [(losses, False)]
        half = losses.shape[0] // 2
        return [(losses[:half], True), (losses[half:], False)]

    def _probe(self, engine: StepEngine, rows: int) -> None:
        """Compare the gradient of the first part of a single worker's batch with the others'."""
        if not self._measures(engine) or rows >= self.part.count:
            return
        if not engine.probe.has_part:
            engine.probe.take_part(engine.buckets.parameters, rows)
        elif not self._more:
            engine.probe.join_parts(self.part.total)

    def _measures(self, engine: StepEngine) -> bool:
        crew = engine.crew
        return engine.probe.active and crew is not None and crew.size == 1 and not engine.sums

    def _sum(self, engine: StepEngine, ours: Ours) -> None:
        self._summed, self._ours = True, None
        engine.sum(ours)
        if not engine.void:
            self._reached |= engine.reached()

    def _give_up(self, engine: StepEngine, ours: Ours) -> None:
        """Take part in a sum without gradients."""
        if self._ours is None:
            engine.begin_sum()
        self._sum(engine, ours)

    def _shrink(self, problem: torch.OutOfMemoryError) -> None:
        """Tell the others with the next ballot how much fits; the step is void."""
        engine, count = self._enter(), self.part.count
        rows = self._rows or count
        if rows <= 1:
            raise BadTrainingError("not even one sample fits into this device's memory") from problem
        if self.micro is not None:
            self.micro = max(1, rows // 2)
        else:
            # Never go below a share that has fitted.
            engine.cap = max(1, int(count * FITS), self._fitted if self._fitted < count else 0)
        self._give_up(engine, Ours(failed=True))

    # updates

    def _apply(self, engine: StepEngine) -> None:
        """Begin the update of a phase."""
        if engine.updates:
            engine.owned.commit()
        else:
            self._hidden = engine.before_update()
        if not engine.void:
            engine.apply()
            self._applied = True

    def _step(
        self, engine: StepEngine, optimizer: Any, step: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Update all parameters but those that a joiner lacks."""
        parameters = engine.buckets.parameters
        kept = {index: parameters[index].grad for index in self._hidden}
        for index in self._hidden:
            parameters[index].grad = None
        factor = factor_of(self.lr_scale, optimizer, engine.batching, self.part.total)
        with scaled(optimizer, factor):
            result = step(*args, **kwargs)
        for index, grad in kept.items():
            parameters[index].grad = grad
        return result

    def _with_gradient(self) -> list[Any]:
        return [p for p in self._training().buckets.parameters if p.grad is not None]

    def _check_used(self, engine: StepEngine, optimizer: Any) -> None:
        if self.allow_unused or engine.skipping:
            return
        state = engine.state
        unused = [
            name
            for index, (name, p) in enumerate(zip(state.names, state.parameters, strict=True))
            if index not in self._reached and state.optimizer_of(p) is optimizer
        ]
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
