"""The state of a training whose model is in parts: what is small goes to joiners as a whole."""

import ctypes
import io
from typing import Any

import torch
from torch import Tensor

from muster.runtime.data.samples import Position
from muster.runtime.state.state import Packed, TrainingState


class ShardedState(TrainingState):
    """All but parameters and their optimiser state, which are in `Parts`."""

    def extras(self) -> Tensor:
        """Return buffers and schedule."""
        packed = io.BytesIO()
        torch.save({"buffers": self._buffers(), "scheduler": self._schedule()}, packed)
        return torch.frombuffer(packed.getbuffer(), dtype=torch.uint8)

    def set_extras(self, packed: Tensor) -> None:
        """Adopt another member's."""
        read = io.BytesIO(ctypes.string_at(packed.data_ptr(), packed.numel()))
        extras = torch.load(read, "cpu", weights_only=True)
        self._set_buffers(extras["buffers"])
        if self.scheduler and extras["scheduler"]:
            self.scheduler.load_state_dict(extras["scheduler"])

    def whole(self) -> Packed:
        """Return all that is not in parts, for a checkpoint."""
        return {
            "buffers": self._buffers(),
            "settings": self.settings(),
            "scheduler": self._schedule(),
            "position": [self.position.epoch, self.position.cursor, self.position.step],
            "losses": self.losses,
            "loss": self.loss,
            "epoch_loss": self.epoch_loss,
            "feed": self.feed.value() if self.feed else None,
        }

    def restore(self, whole: Packed) -> None:
        """Restore a checkpoint, but for what is in parts."""
        self._set_buffers(whole["buffers"])
        self.set_settings(whole["settings"])
        if self.scheduler and whole["scheduler"]:
            self.scheduler.load_state_dict(whole["scheduler"])
        self.position = Position(*whole["position"])
        self.losses, self.loss = float(whole["losses"]), float(whole["loss"])
        self.epoch_loss = float(whole["epoch_loss"])
        if self.feed and whole["feed"] is not None:
            self.feed.restore(whole["feed"], alive=False)

    def _buffers(self) -> dict[str, Any]:
        return dict(self.model.named_buffers())

    def _set_buffers(self, buffers: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, buffer in self.model.named_buffers():
                buffer.copy_(buffers[name])
