"""A Lightning trainer's own progress: what joiners get, and what checkpoints hold.

A worker that joins is to Lightning one that resumes in the middle of an epoch: it loads the state of
the loops and callbacks before it starts them.
"""

from typing import Any

from lightning.pytorch.trainer.call import _call_callbacks_load_state_dict, _call_callbacks_state_dict

from muster.runtime.errors import CannotJoinError


class LoopProgress:
    """Epochs, batches and steps done, and the state of callbacks."""

    differs = True
    """A callback may measure times."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.running = False
        """Whether the loops run by now."""

    def state_dict(self) -> dict[str, Any]:
        """Return it."""
        return {
            "loops": self._trainer.fit_loop.state_dict(),
            "callbacks": _call_callbacks_state_dict(self._trainer),
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Adopt it, before the loops run."""
        if self.running:
            raise CannotJoinError("the worker was lost from which this one got its state: it ends")
        self._trainer.fit_loop.load_state_dict(saved["loops"])
        _call_callbacks_load_state_dict(self._trainer, saved)
