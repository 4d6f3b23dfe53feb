"""A trainer's own progress: what joiners get, and what checkpoints hold."""

import json
from dataclasses import asdict
from typing import Any

from transformers.trainer_callback import ExportableState

_LOCAL = (
    "is_local_process_zero",
    "is_world_process_zero",
    "is_hyper_param_search",
    "stateful_callbacks",
)
"""Of `TrainerState`: what belongs to one worker."""
_COUNTS = ("_total_loss_scalar", "_globalstep_last_logged", "_initial_global_step", "_epoch")
"""Of the trainer: what its logs are computed from."""


class TrainerProgress:
    """Steps, logs, best metric, losses since the last log, and the state of callbacks."""

    differs = True
    """Logs have times of each worker's own."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        """Return it as text, which any version of torch loads safely."""
        trainer = self._trainer
        state = {k: v for k, v in asdict(trainer.state).items() if k not in _LOCAL}
        callbacks = [each.state().get("attributes", {}) for each in self._callbacks()]
        losses = [float(trainer._tr_loss), *(getattr(trainer, name) for name in _COUNTS)]
        return {"progress": json.dumps({"state": state, "callbacks": callbacks, "losses": losses})}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Adopt it."""
        trainer, found = self._trainer, json.loads(saved["progress"])
        for name, value in found["state"].items():
            setattr(trainer.state, name, value)
        for callback, attributes in zip(self._callbacks(), found["callbacks"], strict=True):
            for name, value in attributes.items():
                setattr(callback, name, value)
        trainer._tr_loss.fill_(found["losses"][0])
        for name, value in zip(_COUNTS, found["losses"][1:], strict=True):
            setattr(trainer, name, value)

    def _callbacks(self) -> list[Any]:
        found = [*self._trainer.callback_handler.callbacks, self._trainer.control]
        return [each for each in found if isinstance(each, ExportableState)]
