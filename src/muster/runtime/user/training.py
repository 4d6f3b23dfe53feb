"""Declarative trainings: what to train on what, not how or where."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from torch import Tensor

from muster.ending import Ending
from muster.runtime.errors import BadTrainingError
from muster.runtime.sharded.blocks import Kinds
from muster.runtime.state.state import TrainingState, as_list
from muster.runtime.user.evaluation import apply
from muster.runtime.user.lr_scale import AUTO, LrScale
from muster.runtime.user.session import Session, init
from muster.runtime.user.until import EpochJudge, Met


class Training:
    """A declared training; `run()` trains alone or as one of many workers."""

    def __init__(
        self,
        *,
        model: Any,
        optimizer: Any,
        loss: Callable[..., Tensor],
        dataset: Any,
        global_batch: int | tuple[int, int] | None = None,
        epochs: int | None = None,
        steps: int | None = None,
        until: Ending | Met | None = None,
        checkpoint: str | None = None,
        checkpoint_every: int = 100,
        resume_from: str | None = None,
        scheduler: Any = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        collate: Callable[[list[Any]], Any] | None = None,
        augment: bool | None = None,
        clip: float | None = None,
        allow_unused: bool = False,
        on_step: Callable[[Session], None] | None = None,
        asynchronous: bool = False,
        loaders: int = 0,
        sampler: Any = None,
        micro_batch: int | str | None = None,
        shard: Kinds = False,
        mirror: bool = True,
        export: str = "",
        lr_scale: LrScale = AUTO,
    ) -> None:
        """Declare what to train, on what, until when.

        `loss`: a criterion with reduction="none", called as criterion(model(*inputs), target) with the
        last element of the batch as target; or a function loss(model, *batch). Both return one number
        per sample. `until`: end when the mean loss of an epoch meets it: `muster.loss < 0.1`,
        `muster.converged("0.5%")`, both joined by `|`, or a function of it; `epochs` and `steps` are
        then the most. `checkpoint`: a folder of this job; `resume_from`: one of another, to start
        from. `clip`: largest gradient norm. `on_step`: called after each step, on every worker.
        `asynchronous`: parameter servers apply each worker's gradient at once: no common steps,
        samples at least once, and a result that depends on timing. `dataset`, `global_batch`,
        `loaders`, `sampler`, `micro_batch`, `lr_scale`: as in `Session.data`. `shard`, `mirror`: as in
        `Session.wrap`; `export`: a file for the whole model at the end.
        """
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self._loss, self._until, self._clip, self._on_step = loss, until, clip, on_step
        self._dataset, self._global_batch = dataset, global_batch
        self._data = {
            "epochs": epochs,
            "steps": steps,
            "seed": seed,
            "shuffle": shuffle,
            "drop_last": drop_last,
            "collate": collate,
            "augment": augment,
        }
        self._sampling = {"loaders": loaders, "sampler": sampler, "micro_batch": micro_batch}
        self._lr_scale = lr_scale
        if asynchronous and (any((loaders, sampler, micro_batch)) or global_batch is None):
            raise BadTrainingError(
                "an asynchronous training needs a dataset and global_batch=, and takes no sampler=, "
                "loaders= or micro_batch="
            )
        if asynchronous and isinstance(global_batch, list | tuple):
            raise BadTrainingError(
                "an asynchronous training has no common steps: give one number as global_batch"
            )
        if asynchronous and isinstance(optimizer, list | tuple):
            raise BadTrainingError("an asynchronous training has one optimiser")
        self._sharding, self._export = {"shard": shard, "mirror": mirror}, export
        if asynchronous and shard is not False:
            raise BadTrainingError(
                "an asynchronous training keeps its parameters on servers: no shard="
            )
        self._checkpoint, self._every, self._allow_unused = checkpoint, checkpoint_every, allow_unused
        self._resume_from = resume_from
        if resume_from is not None and checkpoint is None:
            raise BadTrainingError("resume_from= needs checkpoint=, a folder for this training's own")
        self._asynchronous = asynchronous
        if asynchronous and clip is not None:
            raise BadTrainingError(
                "clip= needs the whole gradient, which no server of an asynchronous job sees"
            )

    def run(self) -> Session:
        """Train to the end; return the session."""
        ctx = init()
        self._check_end(ctx)
        if self._asynchronous and not ctx.alone:
            return self._run_asynchronously(ctx)
        unused, sharding = self._allow_unused, self._sharding
        ctx.wrap(self.model, self.optimizer, self.scheduler, allow_unused=unused, **sharding)  # type: ignore[arg-type]
        ctx.export(self._export)
        given = {**self._data, **self._sampling, "lr_scale": self._lr_scale}
        ctx.data(self._dataset, self._global_batch, **given)
        if self._checkpoint is not None:
            ctx.checkpoint(self._checkpoint, every=self._every, resume_from=self._resume_from)
        ctx.forward(self.losses)
        ctx.until(self._until)
        ctx.clips = self._clip is not None
        for batch in ctx.steps():
            self._step(ctx, batch)
        return ctx

    def _check_end(self, ctx: Session) -> None:
        """Raise if neither the script nor its job says when it ends."""
        if self._until is None:
            self._until = ctx.given_ending
        if self._until is None and self._data["epochs"] is None and self._data["steps"] is None:
            raise BadTrainingError(
                "when does it end? give epochs=, steps=, until=muster.loss < ... or "
                'until=muster.converged("0.5%")'
            )

    def _run_asynchronously(self, ctx: Session) -> Session:
        from muster.runtime.asynchronous.task import AsyncTask

        self.model.to(ctx.device)
        if self._checkpoint is not None:
            ctx.checkpoint(self._checkpoint, every=self._every, resume_from=self._resume_from)
        folder = ctx.checkpoints if self._checkpoint is not None else None
        state = TrainingState(self.model, self.optimizer, self.scheduler)
        ending = self._until
        options = {
            **self._data,
            "augment": bool(self._data["augment"]),
            "dataset": self._dataset,
            "batch": self._global_batch,
            "until": EpochJudge(ending) if isinstance(ending, Ending) else ending,
            "scheduler": self.scheduler,
            "save_every": self._every,
        }
        AsyncTask(ctx.settings, state, ctx.device).run(self.losses, folder, options)
        if folder is not None:
            folder.release()
        ctx.adopt(state)
        return ctx

    def losses(self, model: Any, batch: Any) -> Tensor:
        """Return one loss per sample of a batch."""
        return cast(Tensor, apply(self._loss, model, batch))

    def _step(self, ctx: Session, batch: Any) -> None:
        optimizers = as_list(self.optimizer)
        for optimizer in optimizers:
            optimizer.zero_grad()
        for part in ctx.parts(batch):
            ctx.attempt(partial(self.losses, self.model, part))
        if self._clip is not None:
            ctx.clip(self._clip)
        for optimizer in optimizers:
            optimizer.step()
        for scheduler in as_list(self.scheduler):
            for _ in range(ctx.own_steps):  # schedules count steps of the user's own batch
                scheduler.step()
        if self._on_step is not None:
            self._on_step(ctx)
