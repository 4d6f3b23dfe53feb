"""`accelerate.Accelerator` on the elastic runtime.

The first `DataLoader` that is prepared is the training's. Its batch, times
`gradient_accumulation_steps`, is that of all workers together, as in one process, and a worker has no
more than one such batch on its device at once. Loaders after the first are for evaluation: every worker
reads all of them, so there is nothing to gather.
"""

from collections.abc import Iterator
from typing import Any

import accelerate
import torch
from accelerate.utils import DistributedType, LoggerType
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from muster.accelerate.loader import ElasticLoader
from muster.accelerate.scaling import share_scaler
from muster.accelerate.speak import speak
from muster.integration.order import order_of
from muster.integration.trackers import name_run
from muster.integration.weights import items_of, plain, spread
from muster.runtime.errors import BadTrainingError
from muster.runtime.user.session import Session, init


class Accelerator(accelerate.Accelerator):
    """`accelerate.Accelerator`, elastic."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.session: Session = init()
        speak(self.session.primary)
        super().__init__(*args, **kwargs)
        speak(self.session.primary)
        self._check()
        self._loader: ElasticLoader | None = None
        self._part: Any = None
        """The batch that the loop is working on."""
        self._tracked: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        """How trackers were opened."""

    # setup

    def prepare(self, *args: Any, device_placement: Any = None) -> Any:
        """Prepare models, optimisers, schedules and loaders; the first loader is the training's."""
        self._enlist(args)
        first = not self._optimizers
        prepared = super().prepare(*args, device_placement=device_placement)
        if first and self._optimizers:
            share_scaler(self.session, self)
        return prepared

    def prepare_data_loader(self, data_loader: Any, *args: Any, **kwargs: Any) -> Any:
        """Prepare a loader: the training's if it is the first."""
        prepared = super().prepare_data_loader(data_loader, *args, **kwargs)
        if self._loader is not None:
            return prepared
        self._loader = ElasticLoader(prepared, self.session, self._note_part)
        return self._loader

    def register_for_checkpointing(self, *objects: Any) -> None:
        """Keep objects with `state_dict`: joiners and checkpoints get theirs."""
        super().register_for_checkpointing(*objects)
        begin = len(self._custom_objects) - len(objects)
        self.session.keep(**{f"custom{begin + i}": each for i, each in enumerate(objects)})

    def checkpoint(self, folder: str, *, every: int = 100, keep: int = 3) -> None:
        """Save the state every `every` steps, and start from the latest one: see `ctx.checkpoint`."""
        self.session.checkpoint(folder, every=every, keep=keep)

    # the loop

    def epochs(self, count: int, *, steps: int | None = None) -> Iterator[int]:
        """Yield the training's epochs, from the current one on: a worker may join in a later one.

        `steps`: end after as many updates if that is sooner.
        """
        loader = self._loader
        if loader is None:
            raise BadTrainingError("no data: prepare a DataLoader before accelerator.epochs(count)")
        self._set_data(loader, count, steps)
        for epoch in self.session.epochs():
            loader.open = True
            yield epoch
            loader.open = False
        speak(self.session.primary)

    def backward(self, loss: Tensor, weight: float | None = None, **kwargs: Any) -> None:
        """Differentiate the mean loss of a batch; summed over all workers with a step's last one.

        `weight`: what it is a mean of, in number; otherwise the labels that are not -100 if the batch
        is a dictionary with whole numbers as "labels", and its samples if not.
        """
        if self._part is None:
            raise BadTrainingError("backward() belongs inside the loop over the training's loader")
        if not self.session.share:
            self.session.backward(None)
            return
        items = items_of(self._part, self._shifts()) if weight is None else weight
        self.session.backward(spread(loss * items, self._part), weight=items, scaler=self.scaler)

    @property
    def loss(self) -> float:
        """Mean loss of the last step, over all workers."""
        return self.session.loss

    def gather(self, tensor: Any) -> Any:
        """Return what evaluation gathers: every worker has all of it."""
        self._check_no_step("gather")
        return super().gather(tensor)

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False) -> Any:
        """Return what evaluation gathers: every worker has all of it."""
        self._check_no_step("gather_for_metrics")
        return super().gather_for_metrics(input_data, use_gather_object)

    def reduce(self, tensor: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
        """Return what evaluation reduces: every worker has all of it."""
        self._check_no_step("reduce")
        return super().reduce(tensor, reduction, scale)

    # files and trackers

    def init_trackers(self, *args: Any, **kwargs: Any) -> None:
        """Open trackers on the primary: in a job in its first step, since that has the run's name."""
        self._tracked = args, kwargs
        if self.session.alone:
            super().init_trackers(*args, **kwargs)

    def save_state(self, *args: Any, **kwargs: Any) -> Any:
        """Write accelerate's own checkpoint, on the primary."""
        return super().save_state(*args, **kwargs) if self.is_main_process else None

    def load_state(self, *args: Any, **kwargs: Any) -> None:
        """Raise: accelerate's own checkpoints do not know the position in the data."""
        raise BadTrainingError(
            "load_state() would start the data over: call accelerator.checkpoint(folder) before "
            "accelerator.epochs(count), and the training resumes from it by itself"
        )

    # internals

    def _do_sync(self) -> None:
        """Leave it to the loader to say which batch of a step is its last."""

    def _enlist(self, things: tuple[Any, ...]) -> None:
        """Hand models, optimisers and schedules to the runtime, as they are."""
        models = [each for each in things if isinstance(each, torch.nn.Module)]
        optimizers = [each for each in things if isinstance(each, torch.optim.Optimizer)]
        schedules = [each for each in things if isinstance(each, LRScheduler)]
        if len(models) == 1:
            self.session.wrap(models[0], optimizers, schedules, allow_unused=True)
        elif models or optimizers or schedules:
            raise BadTrainingError(
                "prepare a model together with its optimiser and schedule: "
                "model, optimizer, loader, schedule = accelerator.prepare(...)"
            )

    def _set_data(self, loader: ElasticLoader, epochs: int, steps: int | None) -> None:
        seed, batch = torch.initial_seed() % 2**32, loader.batch_sampler.batch_size
        self.session.data(
            loader.dataset,
            min(batch * self.gradient_accumulation_steps, len(loader.dataset)),
            epochs=epochs,
            steps=steps,
            seed=seed,
            sampler=order_of(loader),
            loaders=loader.num_workers,
            collate=lambda samples: plain(loader.collate_fn(samples)),
            micro_batch=batch,
        )

    def _note_part(self, part: Any, last: bool) -> None:
        self._part = part
        self.gradient_state._set_sync_gradients(last)
        speak(self.session.primary)
        if self.is_main_process and self._tracked is not None and not self.trackers:
            args, kwargs = self._tracked
            with self.session.busy():
                name_run(self.session.run_id, LoggerType.MLFLOW in self.log_with)
                super().init_trackers(*args, **kwargs)

    def _shifts(self) -> bool:
        """Whether the loss is that of a causal language model, whose first label is never predicted."""
        return any("CausalLM" in str(getattr(model, "loss_type", "")) for model in self._models)

    def _check(self) -> None:
        if self.distributed_type != DistributedType.NO:
            raise BadTrainingError(
                f"accelerate was set up for {self.distributed_type.value}: workers are Muster's here; "
                "leave its plugins out, and import muster.accelerate first"
            )

    def _check_no_step(self, what: str) -> None:
        if self._part is not None:
            raise BadTrainingError(
                f"accelerator.{what}() in a training step would see this worker's samples only: use "
                "accelerator.loss, or accelerator.session.mean(value, count)"
            )
