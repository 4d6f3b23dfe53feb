"""How long a training of transformers is, as its trainer counts it."""

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class TrainerPlan:
    """What `Trainer.set_initial_training_values` returns, in its order, and what it divides by."""

    epochs: int
    steps_per_epoch: int
    examples: int
    """Of the dataset."""
    samples: float
    """Of the whole training."""
    batch: int
    """Samples per step, over all workers."""
    batches_per_epoch: int
    """Of the loader: what one device holds at once."""
    steps: int
    accumulated: int
    """Batches per step, on one worker."""

    @classmethod
    def of(cls, trainer: Any, loader: Any) -> Self:
        """Return the plan of a trainer with its training's loader."""
        values = trainer.set_initial_training_values(trainer.args, loader)
        return cls(*(*values, trainer.args.gradient_accumulation_steps))

    def epoch_of(self, step: int) -> float:
        """Return the epoch that a number of steps amounts to, as transformers reports it."""
        whole, rest = divmod(step, self.steps_per_epoch)
        return whole + rest * self.accumulated / self.batches_per_epoch

    def ends_epoch(self, step: int) -> bool:
        """Whether a step is the last of an epoch."""
        return step % self.steps_per_epoch == 0
