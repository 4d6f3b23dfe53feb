"""The session of a training script: `ctx = muster.init()`, and a loop that is free of devices.

If a member is lost, the step is redone: `optimizer.step()` does nothing, and the loop gets the same
samples again, split among the survivors.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from math import isnan, nan
from typing import Any

import torch
from torch import Tensor

from muster.runtime.data.feed import Feed, Indexed, Leased
from muster.runtime.data.loader import Loader
from muster.runtime.data.samples import Order
from muster.runtime.errors import BadTrainingError
from muster.runtime.members.link import CoordinatorLink
from muster.runtime.settings import TaskSettings, from_environment
from muster.runtime.shape.capture import Context, capture, order
from muster.runtime.shape.trace import tensors
from muster.runtime.state.checkpoint import Checkpoints
from muster.runtime.state.state import TrainingState
from muster.runtime.step.buckets import Buckets
from muster.runtime.step.device import default_device, device_name
from muster.runtime.step.engine import StepEngine
from muster.runtime.step.malloc import keep_heap
from muster.runtime.step.warm_up import guess_losses, warm_up
from muster.runtime.user.failures import FailureReporter, say
from muster.runtime.user.gradients import Gradients, Guarded
from muster.runtime.user.kept import Kept
from muster.runtime.user.loop import Ends, Loop, Met, moved
from muster.runtime.user.saving import Saving
from muster.wire.messages import Captured

UNASKED = 1_000
"""Steps between checkpoints that the script did not ask for, so that it can be stopped and resumed."""


def init(*, deadline: float = 30.0) -> "Session":
    """Start a session for this task, as its environment describes; without one it trains alone.

    `deadline`: seconds after which a silent member counts as lost, unless a plan says otherwise.
    """
    return Session(from_environment(os.environ), deadline)


class Session:
    """One task's side of an elastic training."""

    def __init__(self, settings: TaskSettings, deadline: float = 30.0) -> None:
        self._deadline = deadline
        self._engine: StepEngine | None = None
        if settings.coordinator is not None:
            sys.excepthook = FailureReporter(settings, self._link, sys.excepthook)
        keep_heap()
        if settings.threads:
            torch.set_num_threads(settings.threads)
        self.device = torch.device(settings.device or default_device(settings.task))
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.settings = replace(settings, device=device_name(self.device))
        self._state: TrainingState | None = None
        self._feed: Feed | None = None
        self._gradients, self._saving = Gradients(), Saving(self.settings)
        self._kept = Kept(self._gradients)
        self._ends: Ends = lambda _: False
        self._until: Met | None = None
        self._length = 0
        """Steps of the whole training, unless a loss ends it earlier; 0: unknown."""
        self._forward: Callable[[Any, Any], Tensor] = guess_losses
        self.clips = False
        """Whether gradients change between sum and update."""
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
        self._gradients.allow_unused = allow_unused
        self._check_optimizer(model, optimizer)
        optimizer.step = Guarded(optimizer.step, self._gradients.update)
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
        self._saving.into(folder, every, keep, resume_from)

    def keep(self, **things: Any) -> None:
        """Keep objects of your own by name: `ctx.keep(ema=ema, scaler=scaler)`.

        Anything with `state_dict` and `load_state_dict`: averages of the weights, a GradScaler, more
        schedules, counters. Their state goes to workers that join, at the beginning of a step, and into
        checkpoints, and must be the same on all workers. Call it on every worker, before `ctx.steps()`.
        """
        if self._engine is not None:
            raise BadTrainingError("keep() was called inside the loop: call it before ctx.steps()")
        self._kept.add(things)

    def start_at(self, *, epoch: int = 0, step: int = 0) -> None:
        """Start in the middle of the data, after a model that you have restored yourself.

        `step`: steps done since the beginning of that epoch. A checkpoint of this training
        (`ctx.checkpoint`) has the last word.
        """
        if epoch < 0 or step < 0:
            raise BadTrainingError(f"start_at(epoch={epoch}, step={step}): neither can be negative")
        self._saving.start = epoch, step

    def forward(self, losses: Callable[[Any, Any], Tensor]) -> None:
        """Set how losses follow from model and batch, to capture the shape and to warm up a joiner."""
        self._forward = losses

    def until(self, met: Met | None) -> None:
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
    def applied(self) -> bool:
        """Whether the last step counted: after `optimizer.step()`, and at the top of the next loop.

        False if a member was lost and the step is redone. Guard what counts steps with it:
        `if ctx.applied: ema.update(model)`.
        """
        return self._gradients.applied

    @property
    def workers(self) -> int:
        """Current workers."""
        crew = self._engine.crew if self._engine else None
        return crew.workers if crew else 1

    @property
    def share(self) -> int:
        """Samples of this worker in the current step; if 0, its batch is a stand-in."""
        return self._gradients.part.count

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
        self._engine = self._gradients.engine = self._saving.engine = self._make_engine(state, feed)
        yield from Loop(self._engine, self._gradients, self._saving, self._ends, self._until).run()

    def backward(self, losses: Tensor) -> None:
        """Compute the gradients of the mean loss over the global batch, summed over all workers.

        `losses`: one per sample of this worker's batch (reduction="none").
        """
        self._gradients.backward(losses)

    def attempt(self, forward: Callable[[], Tensor]) -> None:
        """Call `backward(forward())`; if memory is too small, redo the step with a smaller share."""
        self._gradients.attempt(forward)

    # internals

    def adopt(self, state: TrainingState) -> None:
        """Show the state of a training that ran without this session's steps."""
        self._state = state

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Where the state is saved; None: nowhere."""
        return self._saving.checkpoints

    def _link(self) -> CoordinatorLink | None:
        return self._engine.link if self._engine else None

    def _ready(self) -> tuple[TrainingState, Feed]:
        if self._state is None:
            raise BadTrainingError("no model: call ctx.wrap(model, optimizer) before ctx.steps()")
        if self._feed is None:
            raise BadTrainingError(
                "no data: call ctx.data(dataset, global_batch=...) before ctx.steps()"
            )
        self._state.feed, self._state.kept = self._feed, self._kept.things
        self._kept.find(self._state)
        return self._state, self._feed

    def _make_engine(self, state: TrainingState, feed: Feed) -> StepEngine:
        context = self._capture(state, feed)
        known = {name: i for i, name in enumerate(state.names)}
        buckets = Buckets(state.parameters, [known[name] for name in order(context)])
        engine = StepEngine(self.settings, state, buckets, feed, self.device, self._deadline)
        engine.restore, engine.clips = lambda: self._saving.restore(state), self.clips
        engine.before_leaving, engine.agreement.tell = self._saving.release, say
        steps = self._length if self._until is None else 0
        engine.link.send(Captured(self.settings.task, asdict(context), steps, feed.batch))
        return engine

    def _capture(self, state: TrainingState, feed: Feed) -> Context:
        """Capture the training's shape, and load everything the first step needs."""
        example = moved(feed.example(), self.device)
        rows = max(1, len(next(iter(tensors(example)), ())))
        size = sum(t.numel() * t.element_size() for t in tensors(example)) // rows
        if self.settings.coordinator is not None and self.settings.role == "worker":
            warm_up(state.model, self._forward, example)
        return capture(state.model, self._forward, example, feed.samples, size)

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
