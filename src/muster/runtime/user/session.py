"""The session of a training script: `ctx = muster.init()`, and a loop that is free of devices.

If a member is lost, the step is redone: `optimizer.step()` does nothing, and the loop gets the same
samples again, split among the survivors.
"""

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from math import isnan, nan
from typing import Any

import torch
from torch import Tensor

from muster.runtime.data.feed import Feed, Indexed, Leased, StepPart
from muster.runtime.data.loader import Loader
from muster.runtime.data.samples import Order, Position, mixed_seed
from muster.runtime.errors import (
    BadCheckpointError,
    BadTrainingError,
    BrokenGroupError,
    ExcludedError,
    LeftError,
    LostServerError,
)
from muster.runtime.members.ballot import LEAVE, SAVE, STOP
from muster.runtime.members.crew import plan_name
from muster.runtime.members.link import CoordinatorLink
from muster.runtime.settings import TaskSettings, from_environment
from muster.runtime.shape.capture import Context, capture, order
from muster.runtime.shape.trace import mapped, tensors
from muster.runtime.shards.ownership import LostShardError
from muster.runtime.state.checkpoint import Checkpoints, signature_of
from muster.runtime.state.fence import WriterTerm, WriterTerms
from muster.runtime.state.own_place import leave_link, own_place, path_or_url
from muster.runtime.state.owner import claim_of
from muster.runtime.state.places import is_url
from muster.runtime.state.state import TrainingState
from muster.runtime.step.buckets import Buckets
from muster.runtime.step.device import DeviceNumber, default_device, device_name
from muster.runtime.step.engine import StepEngine
from muster.runtime.step.malloc import keep_heap
from muster.runtime.step.warm_up import guess_losses, warm_up
from muster.wire.messages import Captured, Failed, Saved

FITS = 0.75
"""Factor for the next try when a share did not fit into memory: allocators need headroom."""


def init(*, deadline: float = 30.0) -> "Session":
    """Start a session for this task, as its environment describes; without one it trains alone.

    `deadline`: seconds after which a silent member counts as lost, unless a plan says otherwise.
    """
    return Session(from_environment(os.environ), deadline)


UNASKED = 1_000
"""Steps between checkpoints that the script did not ask for, so that it can be stopped and resumed."""
HEARD = 10.0
"""s for the coordinator to hear of a new formation before its primary claims the checkpoints."""


class Session:
    """One task's side of an elastic training."""

    def __init__(self, settings: TaskSettings, deadline: float = 30.0) -> None:
        self._deadline = deadline
        if settings.coordinator is not None:
            sys.excepthook = FailureReporter(self, sys.excepthook)
        keep_heap()
        if settings.threads:
            torch.set_num_threads(settings.threads)
        self.device = torch.device(settings.device or default_device(settings.task))
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.settings = replace(settings, device=device_name(self.device))
        self._state: TrainingState | None = None
        self._feed: Feed | None = None
        self._ends: Callable[[Position], bool] = lambda _: False
        self._length = 0
        """Steps of the whole training, unless a loss ends it earlier; 0: unknown."""
        self._engine: StepEngine | None = None
        self.checkpoints: Checkpoints | None = None
        """Where the state is saved; None: nowhere."""
        self._every: int | None = None
        self._allow_unused = False
        self._until: Callable[[float], bool] | None = None
        self._forward: Callable[[Any, Any], Tensor] = guess_losses
        self._part = StepPart(0, 0, 0)
        self._summed = self._applied = False
        self.clips = False
        """Whether gradients change between sum and update."""
        self._fitted = 0
        """The largest share that has fitted into memory."""
        if settings.checkpoint:
            self.checkpoint(settings.checkpoint, every=UNASKED)

    @property
    def alone(self) -> bool:
        """Whether this task trains alone."""
        return self.settings.coordinator is None

    # setup

    def wrap(
        self, model: Any, optimizer: Any, scheduler: Any = None, *, allow_unused: bool = False
    ) -> tuple[Any, Any]:
        """Register model, optimiser and schedule, which stay the user's objects.

        `allow_unused`: leave parameters without a gradient alone, as in plain training.
        """
        if self._state is not None:
            raise BadTrainingError("wrap() was called twice: there is one model and one optimiser")
        model.to(self.device)
        if optimizer.state:
            optimizer.load_state_dict(optimizer.state_dict())  # its state follows the parameters
        self._state = TrainingState(model, optimizer, scheduler)
        self._allow_unused = allow_unused
        self._check_optimizer(model, optimizer)
        optimizer.step = _Guarded(optimizer.step, self._update)
        if scheduler is not None:
            scheduler.step = _Guarded(scheduler.step, self._unless_void)
        return model, optimizer

    def data(
        self,
        dataset: Any,
        global_batch: int,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        collate: Callable[[list[Any]], Any] | None = None,
        augment: bool = False,
        loaders: int = 1,
    ) -> None:
        """Set the dataset; `global_batch` counts all workers together and never changes.

        Ends after `epochs` or `steps`, whichever is first. A dataset of streams has `shards()` and
        `shard(i)`: its shards are leased to workers, and samples may repeat after a loss.
        """
        self._ends = lambda position: (
            (epochs is not None and position.epoch >= epochs)
            or (steps is not None and position.step >= steps)
        )
        if hasattr(dataset, "shards"):
            self._feed = Leased(dataset, global_batch, seed, epochs, collate)
            self._length = (steps or 0) if epochs is None else 0
            return
        if not hasattr(dataset, "__len__"):
            raise BadTrainingError(
                f"{type(dataset).__name__} has no length: give a dataset with len() and dataset[i], or "
                "one of streams with shards() -> int and shard(i) -> iterator"
            )
        pin = self.device.type == "cuda"
        loader = Loader(dataset, collate, loaders, seed, augment, pin)
        samples = Order(len(dataset), global_batch, seed, shuffle, drop_last)
        self._feed = Indexed(samples, loader, self._ends)
        ends = [steps, None if epochs is None else epochs * samples.steps_per_epoch]
        self._length = min((end for end in ends if end is not None), default=0)

    def checkpoint(
        self, folder: str, *, every: int = 100, keep: int = 3, resume_from: str | None = None
    ) -> None:
        """Save the state every `every` steps, in a thread; start from the latest checkpoint.

        A relative folder is one of this job's own: below `MUSTER_CHECKPOINT` in a job of the daemon,
        here otherwise. An absolute one is taken as it is. Checkpoints of another job or command line
        are refused; `resume_from` names a folder to start from, whoever wrote it.
        """
        source = resume_from or self.settings.resume_from
        claim = claim_of(self.settings, path_or_url(source) if source else None)
        where = own_place(folder, self.settings.checkpoint)
        terms = WriterTerms(self._term, self._heard)
        self.checkpoints = Checkpoints(where, keep, self._tell_saved, say, claim, terms)
        self._every = every

    def _term(self) -> WriterTerm:
        """Return what changes when members may have been given up. On one machine nobody is cut off,
        and the lock of the folder tells writers apart."""
        crew = self._engine.crew if self._engine else None
        if crew is None or len({member.address.rpartition(":")[0] for member in crew.plan.members}) < 2:
            return WriterTerm()
        return WriterTerm(crew.formation, plan_name(crew.plan))

    def _heard(self) -> bool:
        """Whether the coordinator has heard of the current formation."""
        return self._engine is None or self._engine.link.flush(HEARD)

    def forward(self, losses: Callable[[Any, Any], Tensor]) -> None:
        """Set how losses follow from model and batch, to capture the shape and to warm up a joiner."""
        self._forward = losses

    def until(self, met: Callable[[float], bool] | None) -> None:
        """End after an epoch whose mean loss meets a condition."""
        self._until = met

    # status

    @property
    def loss(self) -> float:
        """Mean loss of the last step over the global batch; NaN before the first."""
        return self._state.loss if self._state else nan

    @property
    def epoch_loss(self) -> float | None:
        """Mean loss of the last complete epoch; None before its end."""
        found = self._state.epoch_loss if self._state else nan
        return None if isnan(found) else found

    @property
    def step(self) -> int:
        """Steps done."""
        return self._state.position.step if self._state else 0

    @property
    def epoch(self) -> int:
        """The current epoch, from 0."""
        return self._state.position.epoch if self._state else 0

    @property
    def workers(self) -> int:
        """Current workers."""
        crew = self._engine.crew if self._engine else None
        return crew.workers if crew else 1

    @property
    def share(self) -> int:
        """Samples of this worker in the current step; if 0, its batch is a stand-in."""
        return self._part.count

    @property
    def formation(self) -> int:
        """The number of the current set of tasks; it grows with every change."""
        crew = self._engine.crew if self._engine else None
        return crew.formation if crew else 0

    @property
    def primary(self) -> bool:
        """Whether this worker speaks for all: print, plot and save on it."""
        return self._engine.primary if self._engine else self.settings.task == "worker-0"

    # the loop

    def steps(self) -> Iterator[Any]:
        """Yield this worker's batch of each step, until the training ends."""
        state, feed = self._ready()
        engine = self._engine = self._make_engine(state, feed)
        try:
            engine.join()
            self._tell_complete(state)
            if engine.works:
                yield from self._loop(engine, state, feed)
            else:
                self._serve(engine, state)
            self._end(engine, state)
        except LostShardError as problem:
            say(f"{problem}; the last step is done, but its checkpoint is not written")
            engine.leave()

    def backward(self, losses: Tensor) -> None:
        """Compute the gradients of the mean loss over the global batch, summed over all workers.

        `losses`: one per sample of this worker's batch (reduction="none").
        """
        engine = self._engine
        if engine is None:
            raise BadTrainingError("backward() belongs inside `for batch in ctx.steps()`")
        if self._summed:
            raise BadTrainingError("backward() was called twice in one step")
        engine.stopwatch.mark()
        loss = self._differentiate(losses) if self._part.count else 0.0
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

    def _shrink(self, problem: torch.OutOfMemoryError) -> None:
        """Tell the others with the next ballot how much fits; the step is void."""
        engine, count = self._engine, self._part.count
        assert engine is not None
        if count <= 1:
            raise BadTrainingError("not even one sample fits into this device's memory") from problem
        # Never go below a share that has fitted.
        engine.cap = max(1, int(count * FITS), self._fitted if self._fitted < count else 0)
        self._summed = True
        engine.sum(0.0, failed=True)

    def _differentiate(self, losses: Tensor) -> float:
        """Run the backward pass; return the sum of the losses."""
        self._check_losses(losses)
        total = losses.sum()
        value = DeviceNumber(total.detach())
        try:
            (total / self._part.total).backward()
        except BrokenGroupError:
            assert self._engine is not None
            self._engine.lose()
        return value.get()

    # internals

    def adopt(self, state: TrainingState) -> None:
        """Show the state of a training that ran without this session's steps."""
        self._state = state

    def _tell_complete(self, state: TrainingState) -> None:
        """Say that a checkpoint left nothing to do: silence would look like a training."""
        if state.position.step and self._is_done(state) and self.primary:
            say(f"already complete at step {state.position.step}: nothing left to train")

    def tell(self, message: Failed) -> None:
        """Send a failure before the process ends, even if training has not begun."""
        link = self._engine.link if self._engine else CoordinatorLink(self.settings, "", lambda _: None)
        if self._engine is None:
            link.start()
        link.send(message)
        link.flush(5.0)

    def _ready(self) -> tuple[TrainingState, Feed]:
        if self._state is None:
            raise BadTrainingError("no model: call ctx.wrap(model, optimizer) before ctx.steps()")
        if self._feed is None:
            raise BadTrainingError(
                "no data: call ctx.data(dataset, global_batch=...) before ctx.steps()"
            )
        self._state.feed = self._feed
        return self._state, self._feed

    def _make_engine(self, state: TrainingState, feed: Feed) -> StepEngine:
        context = self._capture(state, feed)
        known = {name: i for i, name in enumerate(state.names)}
        buckets = Buckets(state.parameters, [known[name] for name in order(context)])
        engine = StepEngine(self.settings, state, buckets, feed, self.device, self._deadline)
        engine.restore, engine.on_commit, engine.clips = self._restore, self._note_step, self.clips
        if self.checkpoints is not None:
            engine.before_leaving = self.checkpoints.release
        steps = self._length if self._until is None else 0
        engine.link.send(Captured(self.settings.task, asdict(context), steps, feed.batch))
        return engine

    def _capture(self, state: TrainingState, feed: Feed) -> Context:
        """Capture the training's shape, and load everything the first step needs."""
        example = _moved(feed.example(), self.device)
        rows = max(1, len(next(iter(tensors(example)), ())))
        size = sum(t.numel() * t.element_size() for t in tensors(example)) // rows
        if self.settings.coordinator is not None and self.settings.role == "worker":
            warm_up(state.model, self._forward, example)
        return capture(state.model, self._forward, example, feed.samples, size)

    def _loop(self, engine: StepEngine, state: TrainingState, feed: Feed) -> Iterator[Any]:
        while not self._is_over(engine, state):
            self._part = engine.begin()
            self._summed = self._applied = False
            yield self._batch(state, feed)
            if not self._summed:
                raise BadTrainingError("the loop took a batch and did not call ctx.backward(losses)")
            if engine.void:
                engine.redo()
                continue
            if not self._applied:
                raise BadTrainingError("the loop called ctx.backward() but not optimizer.step()")
            engine.commit()

    def _is_over(self, engine: StepEngine, state: TrainingState) -> bool:
        return bool(engine.requested & STOP) or self._is_done(state)

    def _is_done(self, state: TrainingState) -> bool:
        """Whether the training has reached the end set by the user."""
        if self._ends(state.position):
            return True
        loss = self.epoch_loss if state.position.cursor == 0 else None
        return bool(loss is not None and self._until and self._until(loss))

    def _serve(self, engine: StepEngine, state: TrainingState) -> None:
        """Take part in every step as a server, without samples."""
        while not self._is_over(engine, state):
            self._part = engine.begin()
            engine.sum(0.0)
            if engine.void:
                engine.redo()
                continue
            if engine.updates:
                engine.owned.commit()
            engine.commit()

    def _batch(self, state: TrainingState, feed: Feed) -> Any:
        """Load this worker's samples; a stand-in if it has none."""
        part = self._part
        # For dropout and the like: by sample, and the same when a step is redone.
        seed = mixed_seed(feed.seed, state.position.step, part.first)
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        return _moved(feed.load(state.position, part), self.device)

    def _note_step(self, before: Position, losses: float) -> None:
        """Update losses after a step, and save if a checkpoint is due."""
        engine, state = self._engine, self._state
        assert engine is not None and state is not None
        state.loss = losses / self._part.total
        self._fitted = max(self._fitted, self._part.count)
        if state.position.epoch > before.epoch:
            state.epoch_loss = state.losses / max(1, before.cursor + self._part.total)
            state.losses = 0.0
        if before.step == 0 and self.checkpoints is not None and engine.primary:
            self.checkpoints.prepare(state.whole())  # the optimiser has created its state by now
        due = self._every is not None and state.position.step % self._every == 0
        if due or engine.requested & (SAVE | STOP):
            self._save(engine, state)

    def _end(self, engine: StepEngine, state: TrainingState) -> None:
        if engine.holds or engine.updates:
            self._save_last(engine, state)
        if engine.requested & LEAVE and not self._is_done(state):
            engine.leave("stopped")
            raise LeftError(0)
        if not engine.holds:
            engine.leave("finished" if not engine.works else "left")
            raise LeftError(0)  # without the whole state it has no result
        engine.leave()
        engine.feed.close()

    def _save_last(self, engine: StepEngine, state: TrainingState) -> None:
        """Write the last checkpoint; if owners update, with all members, and again if one is lost."""
        engine.ended = True
        while True:
            try:
                self._save(engine, state, wait=True)
                break
            except BrokenGroupError:
                engine.lose()
                engine.redo()
        engine.end()

    def _save(self, engine: StepEngine, state: TrainingState, wait: bool = False) -> None:
        if self.checkpoints is None and not wait:
            return
        optimizer = engine.gather(self.checkpoints is not None)
        if self.checkpoints is not None and engine.primary:
            signature, whole = signature_of(state.model, state.optimizer), state.whole()
            if optimizer is not None:
                whole["optimizer"] = optimizer
            self.checkpoints.save(state.position.step, whole, signature, wait)

    def _tell_saved(self, step: int, path: str, seconds: float) -> None:
        """Report a checkpoint (its own thread)."""
        if self._engine is not None:
            self._engine.link.send(Saved(self.settings.task, step, path, seconds))

    def _restore(self) -> bool:
        """Load the latest checkpoint, as the one that writes the next; False if there is none."""
        if self.checkpoints is None or self._state is None:
            return False
        self.checkpoints.take()
        try:
            signature = signature_of(self._state.model, self._state.optimizer)
            found = self.checkpoints.latest(signature)
        except BadCheckpointError:
            self.checkpoints.release()
            raise
        self._tell_folder(self.checkpoints.where)
        if found is not None:
            self._state.restore(found[1])
        return found is not None

    def _tell_folder(self, where: str) -> None:
        """Say where checkpoints are, unless the user has said so."""
        own = self.settings.checkpoint
        if (own and where.startswith(f"{own.rstrip('/')}/")) or is_url(where):
            say(f"checkpoints are written to {where}")
        if own:
            leave_link(where, own)

    def _update(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Replace the user's optimizer.step(): skip it if the step is void."""
        engine = self._engine
        if engine is None:
            return step(*args, **kwargs)
        if not self._summed:
            raise BadTrainingError("optimizer.step() was called before ctx.backward(losses)")
        if engine.void:
            return None
        if engine.updates:
            engine.owned.commit()
            self._applied = engine.state.optimizer._opt_called = True  # torch's schedulers check it
            return None
        hidden = engine.before_update()
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

    def _unless_void(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return None if self._engine is not None and self._engine.void else step(*args, **kwargs)

    # checks

    def _check_optimizer(self, model: Any, optimizer: Any) -> None:
        trained = {id(p) for p in model.parameters() if p.requires_grad}
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not trained:
            raise BadTrainingError("the model has no parameters to train")
        if not trained & held:
            raise BadTrainingError("the optimiser holds none of the model's parameters")
        if type(optimizer).__name__ == "LBFGS":
            raise BadTrainingError(
                "LBFGS evaluates the loss many times per step and cannot be distributed"
            )

    def _check_losses(self, losses: Tensor) -> None:
        count = self._part.count
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
        if self._allow_unused or engine.void:
            return
        unused = [engine.state.names[index] for index in engine.unused()]
        if unused:
            raise BadTrainingError(
                f"no gradient reached {', '.join(unused[:5])}{' ...' if len(unused) > 5 else ''}: "
                "take them out of the model, or pass allow_unused=True to leave them as they are"
            )


class FailureReporter:
    """Reports uncaught errors: those of the user's code fail the job.

    Exclusion by the other members and a lost parameter server do not.
    """

    def __init__(self, session: Session, before: Callable[..., Any]) -> None:
        self._session, self._before = session, before

    def __call__(self, kind: type[BaseException], problem: BaseException, trace: Any) -> None:
        if isinstance(problem, Exception) and not isinstance(problem, ExcludedError | LostServerError):
            line = f"{kind.__name__}: {problem}"
            text = "".join(traceback.format_exception(kind, problem, trace))
            self._session.tell(Failed(self._session.settings.task, line, text))
        self._before(kind, problem, trace)


class _Guarded:
    """Wraps a bound method in a check."""

    def __init__(self, method: Callable[..., Any], guard: Callable[..., Any]) -> None:
        self._method, self._guard = method, guard
        self.__func__ = getattr(method, "__func__", method)  # torch's schedulers check it
        self.__self__ = getattr(method, "__self__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._guard(self._method, *args, **kwargs)


def _moved(batch: Any, device: torch.device) -> Any:
    return mapped(batch, lambda tensor: tensor.to(device, non_blocking=True))


def say(text: str) -> None:
    """Print a line for the user on standard error."""
    print(f"muster: {text}", file=sys.stderr, flush=True)
