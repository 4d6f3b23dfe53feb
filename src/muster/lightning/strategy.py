"""A Lightning strategy on the elastic runtime.

To Lightning every worker is a training of one process: its loops, hooks and callbacks run as usual. The
batch is that of the training's loader, for all workers together; of a step's `accumulate_grad_batches`
batches each worker has its share. Every worker validates on all samples.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from lightning.fabric.plugins.precision.amp import _optimizer_handles_unscaling
from lightning.pytorch.loops.optimization.automatic import ClosureResult
from lightning.pytorch.plugins.precision import Precision
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightning.pytorch.trainer.call import _call_strategy_hook
from lightning.pytorch.utilities.rank_zero import rank_zero_only
from torch import Tensor
from torch.utils.data import DataLoader

from muster.integration.order import order_of
from muster.integration.weights import items_of, plain, spread
from muster.lightning.loader import FitLoader
from muster.lightning.logs import LoggedValues
from muster.lightning.progress import LoopProgress
from muster.runtime.errors import BadTrainingError
from muster.runtime.user.session import Session, init


class MusterStrategy(SingleDeviceStrategy):
    """Trains on workers that come and go; results are those of one process."""

    strategy_name = "muster"

    def __init__(self, *, checkpoint: str | None = None, every: int = 100) -> None:
        """`checkpoint`: a folder for the runtime's own checkpoints, written every `every` steps;
        Lightning's are its own.
        """
        self.session: Session = init()
        self._checkpoint, self._every = checkpoint, every
        self._loader: FitLoader | None = None
        self._progress: LoopProgress
        self._logged: LoggedValues
        self._accumulated = 1
        """Batches per step."""
        self._calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        """How the module's `training_step` was called in this step."""
        self._batch: Any = None
        """The samples of the last of them."""
        self._redone: Any = None
        """Samples for the next one, in a step that is redone."""
        self._again: Iterator[Any] = iter(())
        """Where they come from: open until the step is done."""
        self._weight: float | None = None
        super().__init__(device=self.session.device)

    # who speaks

    @property
    def is_global_zero(self) -> bool:
        """Whether this worker is the primary: it logs and writes files."""
        return self.session.primary

    @property
    def global_rank(self) -> int:
        """0 on the primary."""
        return 0 if self.session.primary else 1

    @global_rank.setter
    def global_rank(self, _: int) -> None:
        rank_zero_only.rank = self.global_rank

    # setup

    def setup(self, trainer: Any) -> None:
        """Create optimisers, and hand them and the model to the runtime."""
        rank_zero_only.rank = self.global_rank
        super().setup(trainer)
        if trainer.state.fn != "fit":
            return
        self._check(trainer)
        self._accumulated = trainer.accumulate_grad_batches
        schedules = [config.scheduler for config in self.lr_scheduler_configs]
        self.session.wrap(self.lightning_module, self.optimizers, schedules, allow_unused=True)
        self._progress = LoopProgress(trainer)
        self.session.keep(lightning=self._progress)
        if self._scaler is not None:
            self.session.keep(scaler=self._scaler)
        self.session.clips = bool(trainer.gradient_clip_val)
        if self._checkpoint is not None:
            self.session.checkpoint(self._checkpoint, every=self._every)

    def process_dataloader(self, dataloader: Any) -> Any:
        """Replace the training's loader; all others are every worker's own."""
        trainer = self.lightning_module.trainer
        if not trainer.training:
            return dataloader
        if self._loader is None:
            self._loader = self._make_loader(trainer, dataloader)
            self._loader.begin()
            self._progress.running = True
        return self._loader

    def _make_loader(self, trainer: Any, loader: Any) -> FitLoader:
        if not isinstance(loader, DataLoader) or loader.batch_sampler is None:
            raise BadTrainingError("the training's loader must be a DataLoader with batch_size=")
        batches, size = _limited(len(loader), trainer.limit_train_batches), loader.batch_size
        seed = torch.initial_seed() % 2**32
        order = order_of(loader)
        epochs, steps = trainer.fit_loop.max_epochs, trainer.fit_loop.max_steps
        self.session.data(
            loader.dataset,
            min(size * self._accumulated, batches * size, len(loader.dataset)),
            epochs=epochs if epochs is not None and epochs >= 0 else None,
            steps=steps if steps >= 0 else None,
            seed=seed,
            loaders=loader.num_workers,
            sampler=lambda epoch: order(epoch)[: batches * size],
            collate=lambda samples: plain(loader.collate_fn(samples)),
        )
        return FitLoader(loader, batches, self.session, lambda: self._follow(trainer))

    # one step

    def training_step(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the module's; a step that is redone has other samples than the loop has."""
        if self._redone is not None:
            batch, self._redone = self._redone, None
            self._logged.follow(batch)
        elif not self._calls:
            self._logged = LoggedValues(self.lightning_module.trainer)
        self._batch = batch
        self._calls.append((args, kwargs))
        found = super().training_step(batch, *args, **kwargs)
        self._weight = found.get("weight") if isinstance(found, Mapping) else None
        return found

    def backward(self, closure_loss: Tensor, optimizer: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Differentiate the mean loss of this worker's samples, and sum over all workers."""
        module = self.lightning_module
        Precision.pre_backward(self.precision_plugin, closure_loss, module)  # its hooks; we scale
        self._differentiate(closure_loss)
        return self.precision_plugin.post_backward(closure_loss, module)

    def _differentiate(self, closure_loss: Tensor) -> None:
        assert self._loader is not None
        ctx, part = self.session, self._loader.part
        if not ctx.share and len(self._calls) == 1:
            ctx.backward(None)
        if not part.rows:
            return
        items = items_of(self._batch, shifts=False) if self._weight is None else self._weight
        # Lightning has divided the loss by the batches of a step, and adds them up.
        batches = ctx.total / part.of if items == part.rows else self._batches_of_step()
        losses = spread(closure_loss * items * batches, self._batch)
        ctx.backward(losses, weight=items, scaler=self._scaler)

    def optimizer_step(
        self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **kwargs: Any
    ) -> Any:
        """Run a step, and again if a member was lost in it: Lightning sees it once."""
        while True:
            result = closure()
            self._update(optimizer, **kwargs)
            if self.session.applied:
                self._calls = []
                rank_zero_only.rank = self.global_rank
                return result
            self._redo(optimizer)

    @property
    def _scaler(self) -> Any:
        """The GradScaler of "16-mixed"; else None."""
        return getattr(self.precision_plugin, "scaler", None)

    def _update(self, optimizer: Any, **kwargs: Any) -> None:
        """Clip and update, as the precision's own plugin does."""
        scaler = self._scaler
        if scaler is not None and not _optimizer_handles_unscaling(optimizer):
            scaler.unscale_(optimizer)
        self.precision_plugin._after_closure(self.lightning_module, optimizer)
        if scaler is None:
            optimizer.step(**kwargs)
        else:
            scaler.step(optimizer, **kwargs)  # not if the gradients of any worker have overflowed
            scaler.update()

    def _redo(self, optimizer: Any) -> None:
        """Begin a step again, with this worker's new share: all but its last batch."""
        assert self._loader is not None
        trainer = self.lightning_module.trainer
        calls, self._calls = self._calls, []
        self._logged.restore()
        optimizer.zero_grad()
        self._again = self._loader.again()
        for number, (args, kwargs) in enumerate(calls, start=1):
            self._redone = self.batch_to_device(next(self._again))
            if number < len(calls):
                found = _call_strategy_hook(trainer, "training_step", None, *args, **kwargs)
                closure = ClosureResult.from_training_step_output(found, self._accumulated)
                _call_strategy_hook(trainer, "backward", closure.closure_loss, optimizer)

    def _batches_of_step(self) -> int:
        """Return how many of the loader's batches this step has: fewer at the end of an epoch."""
        assert self._loader is not None
        return -(-self.session.total // self._loader.batch_size)

    def _follow(self, trainer: Any) -> None:
        """Apply the others' update as a joiner, with their clipping and schedules."""
        self._update(self.optimizers[0])
        for config in self.lr_scheduler_configs:
            if config.interval == "step" and not config.reduce_on_plateau:
                config.scheduler.step()

    # the end

    def on_train_end(self) -> None:
        """Leave the training, after its last checkpoint."""
        if self._loader is not None:
            self._loader.end()

    def _check(self, trainer: Any) -> None:
        if not self.lightning_module.automatic_optimization:
            raise BadTrainingError(
                "manual optimisation is not supported here, nor are several optimisers, which need it: "
                "write a loop of your own with muster.init(), which takes several"
            )
        if str(trainer.precision).startswith("16-true"):
            raise BadTrainingError(
                'precision="16-true" sums gradients in 16 bits, so that the result would depend on the '
                'number of workers: use "16-mixed" or "bf16-mixed"'
            )


def _limited(batches: int, limit: float | int) -> int:
    """Return how many batches of an epoch Lightning takes."""
    return min(batches, limit) if isinstance(limit, int) else int(batches * limit)
