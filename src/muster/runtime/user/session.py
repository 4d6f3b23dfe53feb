"""The session of a training script: `ctx = muster.init()`, and a loop that is free of devices.

If a member is lost, the step is redone: `optimizer.step()` does nothing, and the loop gets the same
samples again, split among the survivors.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from muster.ending import Ending
from muster.runtime.data.feed import Feed
from muster.runtime.data.given import DataOptions, feed_of
from muster.runtime.data.limits import BatchLimits, limits_of
from muster.runtime.data.samples import Position
from muster.runtime.errors import BadTrainingError
from muster.runtime.members.link import CoordinatorLink
from muster.runtime.report import send_metrics
from muster.runtime.settings import TaskSettings, from_environment
from muster.runtime.shape.capture import Context, capture, order
from muster.runtime.shape.trace import tensors
from muster.runtime.sharded.blocks import Kinds, move_buffers
from muster.runtime.sharded.engine import ShardedEngine
from muster.runtime.sharded.kept_parts import check_sharded
from muster.runtime.sharded.sharded_model import ShardedModel
from muster.runtime.sharded.sharded_state import ShardedState
from muster.runtime.state.batching import Batching
from muster.runtime.state.checkpoint import Checkpoints
from muster.runtime.state.owner import claim_of
from muster.runtime.state.state import TrainingState, as_list
from muster.runtime.step.buckets import Buckets, ready_order
from muster.runtime.step.device import device_name, device_of
from muster.runtime.step.engine import StepEngine
from muster.runtime.step.exchange import RowExchange
from muster.runtime.step.malloc import keep_heap
from muster.runtime.step.sync_batchnorm import connect, convert, least_share
from muster.runtime.step.warm_up import guess_losses, warm_up
from muster.runtime.user.batch_status import BatchStatus
from muster.runtime.user.evaluation import Evaluated, Evaluation, Metric
from muster.runtime.user.failures import FailureReporter, say
from muster.runtime.user.gradients import Guarded, StepGradients
from muster.runtime.user.kept import KeptThings
from muster.runtime.user.loop import Loop, moved
from muster.runtime.user.lr_scale import AUTO, LrScale, check_rule
from muster.runtime.user.mistakes import ALL_EPOCHS, NO_END
from muster.runtime.user.parts import micro_size
from muster.runtime.user.saving import Saving
from muster.runtime.user.status import StepStatus
from muster.runtime.user.together import Means, Together, means_of
from muster.runtime.user.tracker import Tracker
from muster.runtime.user.until import OWN, Met
from muster.runtime.user.wrapped import check_wrapped, move_loose, refuse_unwrapped
from muster.wire.tasks.messages import Captured

UNASKED = 1_000
"""Steps between checkpoints that the script did not ask for, so that it can be stopped and resumed."""


def init(*, deadline: float = 30.0) -> "Session":
    """Start a session for this task, as its environment describes; without one it trains alone.

    `deadline`: seconds after which a silent member counts as lost, unless a plan says otherwise.
    """
    return Session(from_environment(os.environ), deadline)


class Session(StepStatus, BatchStatus):
    """One task's side of an elastic training."""

    def __init__(self, settings: TaskSettings, deadline: float = 30.0) -> None:
        self._deadline = deadline
        self._engine: StepEngine | None = None
        self._loop: Loop | None = None
        self._exchange: RowExchange | None = None
        if settings.coordinator is not None:
            sys.excepthook = FailureReporter(settings, self._link, sys.excepthook, self._is_new)
        keep_heap()
        # Else torch has read it, and the user may have set another number since.
        if settings.threads and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(settings.threads)
        self.device = device_of(settings.device, settings.task)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.settings = replace(settings, device=device_name(self.device))
        self._state: TrainingState | None = None
        self._kinds: Kinds = False
        self._mirror = True
        self._export = ""
        self._feed: Feed | None = None
        self._gradients, self._saving = StepGradients(), Saving(self.settings)
        self._kept = KeptThings(self._gradients)
        self._given: tuple[Any, DataOptions] | None = None
        """What `data` was told."""
        self._limits = BatchLimits(0, 0)
        self._until: Ending | Met | None = None
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
        self,
        model: Any,
        optimizer: Any,
        scheduler: Any = None,
        *,
        allow_unused: bool = False,
        shard: Kinds = False,
        mirror: bool = True,
    ) -> tuple[Any, Any]:
        """Register model, optimiser and schedule, which stay the user's objects.

        Call it once for each model; `optimizer` and `scheduler` may be lists, or None for a model
        that is not trained. `allow_unused`: leave parameters without a gradient alone, as in plain
        training.

        `shard`: keep parameters, gradients and optimiser state in parts, one per worker, and gather
        each block just before it computes; a class of modules, or True: the layers of lists. `mirror`:
        keep each part on two workers, so that one may be lost.
        """
        if self._engine is not None:
            raise BadTrainingError(
                "wrap() was called inside the loop: wrap all models before ctx.steps()"
            )
        convert(model)
        optimizers, schedulers = as_list(optimizer), as_list(scheduler)
        if shard is not False:
            check_sharded(self._state, model, optimizers)
            self._kinds, self._mirror = shard, mirror
            move_buffers(model, self.device)
        else:
            model.to(self.device)
            move_loose(optimizers, self.device)
        for each in optimizers:
            if each.state and shard is False:
                each.load_state_dict(each.state_dict())  # its state follows the parameters
        check_wrapped(self._state, model, optimizers)
        if self._state is None:
            kind = TrainingState if shard is False else ShardedState
            self._state = kind(model, optimizers, schedulers)
        else:
            self._state.add(model, optimizers, schedulers)
        self._gradients.allow_unused |= allow_unused
        for each in optimizers:
            each.step = Guarded(each.step, partial(self._gradients.update, each))
            each.add_param_group = Guarded(
                each.add_param_group, partial(self._gradients.add_group, each)
            )
        return model, optimizer

    def data(
        self,
        dataset: Any,
        global_batch: int | tuple[int, int] | None = None,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        collate: Callable[[list[Any]], Any] | None = None,
        augment: bool | None = None,
        loaders: int = 0,
        sampler: Any = None,
        shards: int | None = None,
        prefetch: int = 2,
        loader_init: Callable[[int], None] | None = None,
        micro_batch: int | str | None = None,
        lr_scale: LrScale = AUTO,
    ) -> None:
        """Set the dataset; `global_batch` counts all workers together, however many there are.

        `global_batch=(own, largest)`: begin with your own batch, for which the learning rate is meant,
        and let it grow where that reaches a loss sooner; `steps` then counts steps of the own one.
        `lr_scale`: what a larger batch does to the learning rate: "sqrt", "adascale", "linear", None,
        or a function of the factor; by default "adascale", for Adam and its kin the root of that.

        Ends after `epochs` or `steps`, whichever is first. A torch DataLoader is taken apart: its
        `batch_size` is the global batch. `sampler`: a function of the epoch that returns ids, or a
        torch sampler, of ids or of lists of ids. `loaders`: processes that load ahead, `prefetch`
        batches each (0: a thread of this process); `loader_init(i)` is called in each. `augment`: seed
        the random generators by (seed, epoch, sample) around each `dataset[i]`; None: if samples use
        them.

        A dataset of streams has `shards()` and `shard(i)`: its shards are leased to workers, and
        samples may repeat after a loss. `shards`: of an `IterableDataset` that divides itself by
        `torch.utils.data.get_worker_info()`, into how many.

        `micro_batch`: most samples that `ctx.parts` yields at once; "auto": as many as fit into memory.
        """
        check_rule(lr_scale)
        limits = limits_of(global_batch, self.settings.batch)
        own, largest = (limits.own, limits.largest if limits.free else 0) if limits else (None, 0)
        options = DataOptions(
            own, epochs, steps, seed, shuffle, drop_last, collate, augment, loaders, sampler,
            shards, prefetch, loader_init, largest=largest,
        )  # fmt: skip
        self._give(dataset, options)
        self._gradients.lr_scale = lr_scale
        self._gradients.micro = micro_size(micro_batch, self._limits.largest)

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

    def export(self, path: str) -> None:
        """Write the model's plain `state_dict` to a file at the end, if it is in parts."""
        self._export = path

    def forward(self, losses: Callable[[Any, Any], Tensor]) -> None:
        """Set how losses follow from model and batch, to capture the shape and to warm up a joiner."""
        self._forward = losses

    def until(self, ending: Ending | Met | None) -> None:
        """End after an epoch whose mean loss meets a condition, as `until=` of `Training`.

        Without one, the job's own holds (`until:` of a job file), if it has any.
        """
        self._until = ending

    @property
    def given_ending(self) -> Ending | None:
        """The ending that the job was submitted with, for a script that leaves it open."""
        return self.settings.until

    # status: see `status.py`

    @property
    def run_id(self) -> str:
        """A name for the run, known from the first batch on: the same on all workers, and after
        resizes, restarts and resumption from its own checkpoints."""
        if self._state is None or not self._state.run:
            raise BadTrainingError(
                "ctx.run_id is known inside the loop over ctx.steps(): whether a run is continued "
                "shows when it begins; ctx.tracker() opens what needs it"
            )
        return f"{self.settings.job}-{self._state.run:012x}"

    def tracker(self, start: Callable[[str, int], Any], *, flush: float = 1.0) -> Any:
        """Return a stand-in for an experiment tracker, which writes on the primary only.

        `start(run_id, step)` opens it, at its first use and again where the primary has moved: it
        continues the run after this step. Calls in a step that is redone are left out. `flush`: seconds
        after which what was written is flushed, if the tracker can; a worker that is killed takes the
        rest with it.
        """
        return Tracker(start, self._tracking, flush, self.busy)

    # the loop

    def steps(self) -> Iterator[Any]:
        """Yield this worker's batch of each step, until the training ends.

        Within `for epoch in ctx.epochs()`: until the epoch ends.
        """
        if self._loop is None:
            yield from self._make_loop().run()
        elif self._loop.nested and not self._loop.ended:
            yield from self._loop.run_epoch()
        else:
            raise BadTrainingError(ALL_EPOCHS)

    def epochs(self, count: int | None = None) -> Iterator[int]:
        """Yield the number of each epoch, from the current one, until the training ends.

        `count`: epochs of the whole training, if `ctx.data` was not told.
        """
        if self._loop is not None:
            raise BadTrainingError("ctx.epochs() was called after the training began: call it once")
        if count is not None and self._given is not None:
            dataset, options = self._given
            self._give(dataset, replace(options, epochs=count))
        yield from self._make_loop().run_epochs()

    def stop(self) -> None:
        """End the training on all workers, with a last checkpoint; one that says so is enough.

        After an evaluation or an epoch of `ctx.epochs()` no further step is done (with servers one);
        before `ctx.backward` this step is the last, after it the next one.
        """
        self._begun_loop("ctx.stop()").stop()

    # together

    def evaluate(
        self,
        data: Any,
        *,
        batch: int | None = None,
        metric: Metric | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> Means:
        """Return the mean of a metric over a dataset, each sample counted once; on all workers.

        `metric(model, *batch)` returns one number per sample, or a pair (sum, weight), or a mapping of
        names to such; a criterion with reduction="none" is called as in `Training`. By default the loss
        that `ctx.forward` or `Training` was given. Models are in evaluation mode, without gradients; it
        gets the first. A DataLoader is taken apart: its `batch_size` is the batch of one worker.
        Every worker calls it in the same place: inside the loop or after it.
        """
        together = self._together("ctx.evaluate()")
        chosen = metric or self._default_metric()
        gathered = None if together.engine.whole else together.engine.gathered
        assert self._state is not None
        given = Evaluated.of(data, batch, collate)
        one = Evaluation(self._state.models, given, chosen, self.device, gathered)
        try:
            with together.busy():
                sums = together.call(lambda: one.run(together.engine.exchange, together.part))
        finally:
            one.close()
        found = means_of(sums)
        return found[""] if set(found) == {""} else found

    def mean(self, value: Any, n: float = 1) -> Means:
        """Return the mean of the workers' values, weighted by `n`; of a mapping, that of each.

        Every worker calls it in the same place: inside the loop or after it. In a step without samples
        of its own (`ctx.share` is 0) a worker's value does not count.
        """
        together, loop = self._together("ctx.mean()"), self._loop
        counts = loop is None or not loop.in_step or self._gradients.part.count > 0
        return together.mean(value, n if counts else 0)

    def busy(self) -> AbstractContextManager[None]:
        """Let the others wait for this worker during a `with` block, whatever the deadline.

        For what takes long on one worker, such as writing a sample of pictures. A worker that dies or
        hangs meanwhile is noticed as always.
        """
        return self._together("ctx.busy()").busy()

    def backward(
        self, losses: Tensor, *, weight: Any = None, optimizer: Any = None, scaler: Any = None
    ) -> None:
        """Compute the gradients of the mean loss over the global batch, summed over all workers.

        `losses`: one per sample of this worker's batch (reduction="none"). A second call adds to the
        gradients; one after `optimizer.step()` begins the next phase of the step. `weight`: one per
        sample, or their sum: losses are divided by the sum of all workers' weights, not by the number
        of samples. `optimizer`: sum the gradients of its parameters only. `scaler`: a GradScaler, which
        scales the gradients; the loss is reported as it is.
        """
        self._come_to_sum()
        self._gradients.backward(losses, weight, optimizer, scaler)

    def parts(self, batch: Any) -> Iterator[Any]:
        """Yield a batch in micro-batches (`micro_batch`); gradients are summed after the last."""
        return self._gradients.parts(batch)

    def cut(self, batch: Any, sizes: Sequence[int]) -> Iterator[Any]:
        """Yield a batch in parts of these sizes; gradients are summed after the last."""
        return self._gradients.cut(batch, sizes)

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows (one per sample) of all workers in the order of the batch, with gradients.

        For losses that compare samples, as contrastive ones do; all workers must call it. This
        worker's own rows begin at `ctx.first`.
        """
        return self._exchange.together(rows) if self._exchange is not None else rows

    def unfreeze(self, what: Any) -> None:
        """Train a module or some parameters from this step on; call it before `ctx.backward`.

        On every worker in the same step. Those that join later train the same, and so does a training
        that resumes from a checkpoint. `what.requires_grad_(...)` and `optimizer.add_param_group(...)`
        do the same.
        """
        for parameter in what.parameters() if hasattr(what, "parameters") else as_list(what):
            parameter.requires_grad_(True)

    def skip(self) -> None:
        """Leave out the update on all workers, as with a bad batch; its samples count as seen.

        Instead of `ctx.backward`, one worker's call counts for all; after it, all must call it.
        """
        self._come_to_sum()
        self._gradients.skip()

    def clip(self, max_norm: float) -> float:
        """Scale the gradients down to a norm, after `backward`; return their norm before."""
        return self._gradients.clip(max_norm)

    def attempt(self, forward: Callable[[], Tensor], **options: Any) -> None:
        """Call `backward(forward(), **options)`; if memory is too small, redo the step with less."""
        self._come_to_sum()
        self._gradients.attempt(forward, **options)

    def report(self, *, epoch: int | None = None, **metrics: float) -> None:
        """Report metrics of your own, such as `ctx.report(accuracy=0.9)`; of the primary only.

        A sweep ranks and stops its members by them. `epoch`: epochs done; by default one more than at
        the last report.
        """
        if self._tracking() is not None:
            send_metrics(metrics, epoch)

    # internals

    def adopt(self, state: TrainingState) -> None:
        """Show the state of a training that ran without this session's steps."""
        self._state = state

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Where the state is saved; None: nowhere."""
        return self._saving.checkpoints

    def _come_to_sum(self) -> None:
        if self._loop is not None:
            self._loop.sum()

    def _tracking(self) -> tuple[str, int] | None:
        """Return run and step if this worker may write to a tracker now."""
        if self._loop is None or not self.primary or self._loop.is_void:
            return None
        return self.run_id, self.step

    def _is_new(self) -> bool:
        return self._engine is None or self._engine.is_new

    def _link(self) -> CoordinatorLink | None:
        return self._engine.link if self._engine else None

    @property
    def _position(self) -> Position:
        if self._loop is not None:
            return self._loop.position
        return self._state.position if self._state else Position()

    def _give(self, dataset: Any, options: DataOptions) -> Feed:
        self._given = dataset, options
        self._feed, self._length = feed_of(dataset, options, self.device.type == "cuda")
        own, most = self._feed.batch, self._feed.samples or options.largest
        self._limits = BatchLimits(own, max(own, min(options.largest, most)))
        return self._feed

    def _make_loop(self) -> Loop:
        state, feed = self._ready()
        assert self._given is not None
        options = self._given[1]
        self._until = self._until or self.given_ending
        if options.epochs is None and options.steps is None and self._until is None:
            raise BadTrainingError(NO_END)
        self._engine = self._gradients.engine = self._saving.engine = self._make_engine(state, feed)
        self._loop = Loop(self._engine, self._gradients, self._saving, options.ends, self._until)
        return self._loop

    def _begun_loop(self, what: str) -> Loop:
        if self._loop is None:
            raise BadTrainingError(
                f"{what} belongs inside the loop over ctx.steps(), or after it: before it, a worker "
                "that joins later would be there alone; for the first step only, write "
                "`if ctx.step == 0:`"
            )
        return self._loop

    def _together(self, what: str) -> Together:
        return self._begun_loop(what).together

    def _default_metric(self) -> Metric:
        losses = self._forward
        if losses is guess_losses:
            raise BadTrainingError(
                "what should ctx.evaluate() measure? give metric=..., a function of model and batch "
                "that returns one number per sample"
            )
        return lambda model, *batch: losses(model, batch[0] if len(batch) == 1 else list(batch))

    def _ready(self) -> tuple[TrainingState, Feed]:
        if self._state is None:
            raise BadTrainingError("no model: call ctx.wrap(model, optimizer) before ctx.steps()")
        if not self._state.optimizers:
            raise BadTrainingError("no optimiser: call ctx.wrap(model, optimizer) before ctx.steps()")
        if self._feed is None:
            raise BadTrainingError(
                "no data: call ctx.data(dataset, global_batch=...) before ctx.steps()"
            )
        self._state.feed, self._state.kept = self._feed, self._kept.things
        self._state.batching = Batching(self._limits)
        self._kept.find(self._state)
        self._state.owner = str(claim_of(self.settings, None).owner)
        return self._state, self._feed

    def _make_engine(self, state: TrainingState, feed: Feed) -> StepEngine:
        context = self._capture(state, feed)
        state.numbers.reset()
        engine = self._member(state, feed, context)
        self._exchange = RowExchange(engine)
        for model in state.models:
            connect(model, self._exchange)
        feed.least = least_share(state.models)
        engine.restore, engine.clips = lambda: self._saving.restore(state), self.clips
        engine.before_leaving, engine.agreement.tell = self._saving.release, say
        # A model in parts is gathered block by block, which no plan of the daemon describes.
        shape = asdict(context) | ({"in_parts": True} if isinstance(state, ShardedState) else {})
        engine.link.send(self._captured(shape))
        engine.on_given = lambda: engine.link.send(self._captured(shape))
        return engine

    def _captured(self, shape: dict[str, Any]) -> Captured:
        """Return what this training says of itself."""
        until = self._state.given.instead_of(self._until) if self._state else self._until
        limits = self._limits.own, self._limits.largest if self._limits.free else 0
        if until is None:
            return Captured(self.settings.task, shape, self._length, *limits)
        ends = str(until) if isinstance(until, Ending) else OWN
        return Captured(self.settings.task, shape, 0, *limits, until=ends, most=self._length)

    def _member(self, state: TrainingState, feed: Feed, context: Context) -> StepEngine:
        if isinstance(state, ShardedState):
            Batching(self._limits).check_whole("shard=")
            shards = ShardedModel(state.model, self._kinds)
            task = (self.settings, state, shards, feed, self.device, self._deadline)
            return ShardedEngine(*task, self._mirror, self._export, say)
        known = order(context)
        buckets = Buckets(state.parameters, ready_order(state.names, known), state.names)
        buckets.sparse = state.sparse()
        engine = StepEngine(self.settings, state, buckets, feed, self.device, self._deadline)
        engine.ready = known
        refuse_unwrapped(engine)
        return engine

    def _capture(self, state: TrainingState, feed: Feed) -> Context:
        """Capture the training's shape, and load everything the first step needs."""
        example = moved(feed.example(), self.device)
        rows = max(1, len(next(iter(tensors(example)), ())))
        size = sum(t.numel() * t.element_size() for t in tensors(example)) // rows
        alone, works = self.settings.coordinator is None, self.settings.role == "worker"
        if works and not alone and self._kinds is False:  # in parts: the whole may not fit
            warm_up(state.model, self._forward, example)
        found = capture(state.model, self._forward, example, feed.samples, size)
        return replace(found, micro_batch=self._gradients.micro or 0)
