"""The state of a training whose model is in parts: what is small goes to joiners as a whole."""

import ctypes
import io
from typing import Any

import torch
from torch import Tensor

from muster.runtime.state.kept_values import kept_value, schedule_value, set_kept
from muster.runtime.state.state import Packed, TrainingState


class ShardedState(TrainingState):
    """All but parameters and their optimiser state, which are in `Parts`."""

    in_parts = True

    def __init__(self, model: Any, optimizer: Any = None, scheduler: Any = None) -> None:
        super().__init__(model, optimizer, scheduler)
        self._signature = super().signature()

    def signature(self) -> str:
        """Describe what a checkpoint must match: the shapes of the whole."""
        return self._signature

    def whole(self) -> Packed:
        """Return all that is not in parts, for a checkpoint."""
        settings = {**self.optimizer.state_dict(), "state": {}}
        return {**super().whole(), "model": self._buffers(), "optimizer": settings}

    def restore(self, whole: Packed) -> None:
        """Restore a checkpoint, but for what is in parts."""
        super().restore({**whole, "model": {**self.model.state_dict(), **whole["model"]}})

    def extras(self) -> Tensor:
        """Return buffers and schedules."""
        packed = io.BytesIO()
        schedules = [schedule_value(each) for each in self.schedulers]
        kept = {name: kept_value(thing) for name, thing in self.kept.items()}
        torch.save({"buffers": self._buffers(), "schedulers": schedules, "kept": kept}, packed)
        return torch.frombuffer(packed.getbuffer(), dtype=torch.uint8)

    def set_extras(self, packed: Tensor) -> None:
        """Adopt another member's."""
        read = io.BytesIO(ctypes.string_at(packed.data_ptr(), packed.numel()))
        extras = torch.load(read, "cpu", weights_only=True)
        set_kept(self.kept, extras["kept"])
        self.model.load_state_dict(extras["buffers"], strict=False)
        for scheduler, kept in zip(self.schedulers, extras["schedulers"], strict=True):
            scheduler.load_state_dict(kept)

    def _buffers(self) -> dict[str, Any]:
        inside = {id(parameter) for parameter in self.model.parameters()}
        named = self.model.state_dict(keep_vars=True).items()
        return {name: value for name, value in named if id(value) not in inside}
