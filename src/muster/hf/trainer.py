"""`transformers.Trainer` on the elastic runtime.

The batch is `per_device_train_batch_size` times `gradient_accumulation_steps`, as in one process,
however many workers there are; none has more than `per_device_train_batch_size` samples on its device
at once.
Data, losses, clipping, schedule and callbacks are those of transformers; the loop around them is ours.
"""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau
from transformers.optimization import GreedyLR
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput

from muster.accelerate.scaling import share_scaler
from muster.accelerate.speak import speak
from muster.hf.checks import check_arguments, check_dataset
from muster.hf.floor import begin_run, take_floor
from muster.hf.plan import TrainerPlan
from muster.hf.progress import TrainerProgress
from muster.integration.entry import entered
from muster.integration.order import order_of
from muster.integration.weights import Batch, LossKind, kind_of, plain, rows, spread
from muster.runtime.errors import BadTrainingError
from muster.runtime.user.session import Session, init

TRIED = 8
"""Samples on which the kind of the loss is tried."""
KEPT = 3
"""Checkpoints of the runtime's own that are kept, where the user sets no limit."""
BY_METRIC = (ReduceLROnPlateau, GreedyLR)
"""Schedules that follow a metric."""


class Trainer(transformers.Trainer):
    """`transformers.Trainer`, elastic."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.session: Session = init()
        speak(self.session.primary)
        super().__init__(*args, **kwargs)
        self.control: Any
        check_arguments(self.args, self.session.device)
        self.args._n_gpu = min(self.args.n_gpu, 1)
        self._kind = LossKind(divides=False, shifts=False)
        take_floor(self)

    # the loop

    def _inner_training_loop(
        self,
        batch_size: int | None = None,
        args: Any = None,
        resume_from_checkpoint: str | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        if trial is not None:
            raise BadTrainingError("hyperparameter_search is not elastic: submit a job for each trial")
        check_dataset(self.train_dataset)
        loader = self.get_train_dataloader()
        plan = TrainerPlan.of(self, loader)
        counts = plan.steps, plan.steps_per_epoch, plan.epochs
        self._init_training_state(*counts, resume_from_checkpoint, trial)
        model, loader = self._prepare_for_training(plan.steps, loader, resume_from_checkpoint)
        self._reset_losses()
        self._enlist(loader, plan)
        self._kind = self._find_kind(model)
        steps = entered(self.session, partial(self._update, model))
        first = list(islice(steps, 1))  # a joiner has the others' progress from here on
        run = _Run(model, plan, ignore_keys_for_eval, time.time())
        self._begin(run)
        for batch in chain(first, steps):
            self._step(run, batch)
        take_floor(self)
        return self._finalize_training(trial, plan.samples, run.begun)

    def _enlist(self, loader: Any, plan: TrainerPlan) -> None:
        """Hand model, data and progress to the runtime."""
        ctx, args = self.session, self.args
        optimizer = self.optimizer.optimizer  # accelerate's wrapper calls its step
        ctx.wrap(self.model, optimizer, self.lr_scheduler, allow_unused=True)
        share_scaler(ctx, self.accelerator)
        ctx.keep(trainer=TrainerProgress(self))
        ctx.clips = args.max_grad_norm > 0
        seed = args.seed if args.data_seed is None else args.data_seed
        ctx.data(
            loader.dataset,
            min(plan.batch, len(loader.dataset)),
            steps=plan.steps,
            seed=seed,
            sampler=order_of(loader),
            collate=lambda samples: plain(loader.collate_fn(samples)),
            loaders=loader.num_workers,
            micro_batch=self._train_batch_size,
        )
        if self.state.global_step:  # resumed from a checkpoint of transformers
            epoch, step = divmod(self.state.global_step, plan.steps_per_epoch)
            ctx.start_at(epoch=epoch, step=step)
        self._save_as_asked(plan)
        ctx.forward(lambda net, batch: self.compute_loss(net, dict(batch)).expand(rows(batch)))

    def _reset_losses(self) -> None:
        """Begin to count losses, as transformers does."""
        self._tr_loss = torch.tensor(0.0, device=self.args.device)
        self._total_loss_scalar = 0.0
        self._globalstep_last_logged = self._initial_global_step = self.state.global_step
        self._initial_num_input_tokens_seen = self.state.num_input_tokens_seen
        self._epoch, self._stopped = -1, False

    def _begin(self, run: "_Run") -> None:
        take_floor(self)
        if not self.session.alone:
            begin_run(self)
        run.model.zero_grad()
        self.control = self.callback_handler.on_train_begin(self.args, self.state, self.control)
        if self.args.eval_on_start and not self.state.global_step:
            self._evaluate(None, run.ignored, skip_scheduler=True)

    def _step(self, run: "_Run", batch: Batch) -> None:
        """Train on one batch; nothing is counted if a member was lost meanwhile."""
        ctx, handler = self.session, self.callback_handler
        if self._stopped:
            ctx.skip()  # the others hear of the end with this step
            return
        take_floor(self)
        if ctx.epoch > self._epoch:
            self._epoch = ctx.epoch
            self.control = handler.on_epoch_begin(self.args, self.state, self.control)
        self.control = handler.on_step_begin(self.args, self.state, self.control)
        for part in ctx.parts(batch):
            self.training_step(run.model, part)
        grad_norm, rate = self._update(run.model)
        if ctx.applied:
            self._tr_loss += ctx.step_loss
            self.current_flos += self.floating_point_ops(batch) * run.plan.batch / rows(batch)
            self._advance(run, grad_norm, rate)

    def _update(self, model: Any) -> tuple[Any, float]:
        """Clip and step; return the norm of the gradients and the learning rate."""
        grad_norm = self._clip_grad_norm(model) if self.args.max_grad_norm > 0 else None
        grad_norm = self._get_grad_norm(model, grad_norm=grad_norm)
        handler = self.callback_handler
        self.control = handler.on_pre_optimizer_step(self.args, self.state, self.control)
        self.optimizer.step()
        overflow = self.accelerator.optimizer_step_was_skipped
        self.control = handler.on_optimizer_step(self.args, self.state, self.control)
        rate = self._get_learning_rate()
        if not overflow and not isinstance(self.lr_scheduler, BY_METRIC):  # after an evaluation
            self.lr_scheduler.step()
        model.zero_grad()
        return grad_norm, rate

    def _advance(self, run: "_Run", grad_norm: Any, rate: float) -> None:
        """Count a step, and log, evaluate and save if it is time."""
        state, plan, handler = self.state, run.plan, self.callback_handler
        state.global_step += 1
        state.epoch = plan.epoch_of(state.global_step)
        self.control = handler.on_step_end(self.args, state, self.control)
        self._report(run, grad_norm, rate)
        if self.control.should_epoch_stop and not plan.ends_epoch(state.global_step):
            raise BadTrainingError(
                "a callback ended an epoch early: an elastic training ends epochs whole"
            )
        if plan.ends_epoch(state.global_step) or self.control.should_training_stop:
            self.control = handler.on_epoch_end(self.args, state, self.control)
            self._report(run, grad_norm, rate)
        if self.control.should_training_stop and state.global_step < plan.steps:
            self._stopped = True
            self.session.stop()

    def _report(self, run: "_Run", grad_norm: Any, rate: float) -> None:
        epoch = int(self.state.epoch)
        where = (None, epoch, run.ignored, run.begun)
        self._maybe_log_save_evaluate(self._tr_loss, grad_norm, run.model, *where, learning_rate=rate)

    # one worker's samples

    def training_step(self, model: Any, inputs: Batch, num_items_in_batch: Any = None) -> Tensor:
        """Differentiate the loss of this worker's samples; return it.

        The number of items that it is divided by is that of all workers' samples: whatever is given
        here is left aside.
        """
        model.train()
        if hasattr(self.optimizer, "train") and callable(self.optimizer.train):
            self.optimizer.train()
        if not self.session.share:
            self.session.backward(None)
            return torch.zeros((), device=self.args.device)
        inputs = self._prepare_inputs(inputs)
        kind = self._kind
        items = kind.items(inputs)
        with self.compute_loss_context_manager():
            total = kind.total(lambda batch, count: self._loss(model, batch, count), inputs)
        scaler = self.accelerator.scaler
        self.session.backward(spread(total, inputs), weight=items, scaler=scaler)
        return total.detach() / max(1, items)

    def _loss(self, model: Any, batch: Batch, items: Tensor | None) -> Tensor:
        return self.compute_loss(model, dict(batch), num_items_in_batch=items)

    def _find_kind(self, model: Any) -> LossKind:
        """Try what the loss is a mean of, on a few samples, without a trace."""
        loader = self.callback_handler.train_dataloader
        count = min(TRIED, len(loader.dataset))
        batch = self._prepare_inputs(dict(loader.collate_fn([loader.dataset[i] for i in range(count)])))
        takes_items = self._get_num_items_in_batch([batch], self.args.device) is not None
        devices = [self.args.device] if self.args.device.type == "cuda" else []
        model.eval()
        with torch.random.fork_rng(devices), self.compute_loss_context_manager():
            found = kind_of(
                lambda part, items: self._loss(model, part, items),
                batch,
                self._loss_shifts_labels,
                takes_items,
            )
        model.train()
        return found

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate on all samples, on every worker: each has the metrics, and nothing is gathered."""
        with self.session.busy() if self.is_in_train else nullcontext():
            return super().evaluation_loop(*args, **kwargs)

    # files

    def _save_as_asked(self, plan: TrainerPlan) -> None:
        """Save the runtime's own checkpoints as often as the trainer's, in a job that has a place."""
        args, ctx = self.args, self.session
        every = {"steps": self.state.save_steps, "epoch": plan.steps_per_epoch}.get(args.save_strategy)
        if ctx.settings.checkpoint and every:
            ctx.checkpoint("trainer", every=every, keep=args.save_total_limit or KEPT)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write a checkpoint as transformers does, on the primary."""
        if self.args.should_save:
            with self.session.busy():
                super()._save_checkpoint(model, trial)
        elif self.state.best_global_step:
            best = f"{PREFIX_CHECKPOINT_DIR}-{self.state.best_global_step}"
            self.state.best_model_checkpoint = str(Path(self._get_output_dir(trial)) / best)


@dataclass(frozen=True, slots=True)
class _Run:
    """One call of `train`."""

    model: Any
    """As accelerate has prepared it."""
    plan: TrainerPlan
    ignored: list[str] | None
    begun: float


class Seq2SeqTrainer(Trainer, transformers.Seq2SeqTrainer):
    """`transformers.Seq2SeqTrainer`, elastic."""
