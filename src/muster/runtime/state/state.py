"""The state of a training: parameters, optimiser, schedule, position in the data."""

import ctypes
import io
from math import nan
from typing import Any

import torch
from torch import Tensor

from muster.runtime.data.feed import Feed
from muster.runtime.data.samples import Position

Packed = dict[str, Any]


class TrainingState:
    """The user's model, optimiser and schedule, read and written as a whole or by tensor."""

    def __init__(self, model: Any, optimizer: Any, scheduler: Any = None) -> None:
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.feed: Feed | None = None
        self.parameters: list[Any] = [p for p in model.parameters() if p.requires_grad]
        self.names: list[str] = [n for n, p in model.named_parameters() if p.requires_grad]
        self.position = Position(0, 0, 0)
        self.losses = 0.0
        """Sum of this epoch's losses so far, over all workers."""
        self.loss = nan
        """Mean loss of the last step over the global batch; NaN: no step was done."""
        self.epoch_loss = nan
        """Mean loss of the last complete epoch; NaN: there was none."""

    def whole(self) -> Packed:
        """Return everything for a checkpoint; live tensors, not copies."""
        position = self.position
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self._schedule(),
            "position": [position.epoch, position.cursor, position.step],
            "losses": self.losses,
            "loss": self.loss,
            "epoch_loss": self.epoch_loss,
            "feed": self.feed.value() if self.feed else None,
        }

    def restore(self, whole: Packed) -> None:
        """Restore a checkpoint."""
        self.model.load_state_dict(whole["model"])
        self.optimizer.load_state_dict(whole["optimizer"])
        if self.scheduler and whole["scheduler"]:
            self.scheduler.load_state_dict(whole["scheduler"])
        self.position = Position(*whole["position"])
        self.losses = float(whole["losses"])
        self.loss = float(whole.get("loss", nan))  # older checkpoints have none
        self.epoch_loss = float(whole.get("epoch_loss", nan))
        if self.feed and whole["feed"] is not None:
            self.feed.restore(whole["feed"], alive=False)

    def tensors_of(self, index: int) -> tuple[Packed, list[Tensor]]:
        """Return one parameter with its optimiser state: a description, and tensors."""
        parameter = self.parameters[index]
        kept = self.optimizer.state.get(parameter, {})
        tensors, plain = [parameter.detach()], {}
        described = []
        for key, value in kept.items():
            if isinstance(value, Tensor):
                described.append([key, list(value.shape), str(value.dtype), value.device.type])
                tensors.append(value.detach())
            else:
                plain[key] = value
        return {"parameter": index, "tensors": described, "plain": plain}, tensors

    def room_for(self, described: Packed) -> list[Tensor]:
        """Return where the tensors of a description are received; replaces the optimiser's state."""
        parameter = self.parameters[described["parameter"]]
        room, kept = [parameter.detach()], dict(described["plain"])
        for key, shape, dtype, device in described["tensors"]:
            # Step counters stay in host memory; the rest goes to this member's device.
            counter = not shape and device == "cpu" and not self._on_device(parameter)
            place = "cpu" if counter else parameter.device
            kept[key] = torch.empty(shape, dtype=getattr(torch, dtype.partition(".")[2]), device=place)
            room.append(kept[key])
        if kept:
            self.optimizer.state[parameter] = kept
        else:
            self.optimizer.state.pop(parameter, None)
        return room

    def _on_device(self, parameter: Any) -> bool:
        """Whether the optimiser wants its step counters on the parameter's device."""
        for group in self.optimizer.param_groups:
            if any(parameter is other for other in group["params"]):
                return bool(group.get("fused") or group.get("capturable"))
        return False

    def settings(self) -> list[Packed]:
        """Return the optimiser's hyper-parameters by group, for JSON."""
        return [
            {k: float(v) if isinstance(v, Tensor) else v for k, v in group.items() if k != "params"}
            for group in self.optimizer.param_groups
        ]

    def set_settings(self, groups: list[Packed]) -> None:
        """Adopt another member's."""
        for group, values in zip(self.optimizer.param_groups, groups, strict=True):
            for key, value in values.items():
                group[key] = tuple(value) if isinstance(group.get(key), tuple) else value

    def extras(self) -> Tensor:
        """Return the rest: buffers, frozen parameters, schedule."""
        trained = set(self.names)
        rest = {k: v for k, v in self.model.state_dict().items() if k not in trained}
        packed = io.BytesIO()
        torch.save({"rest": rest, "scheduler": self._schedule()}, packed)
        return torch.frombuffer(packed.getbuffer(), dtype=torch.uint8)

    def _schedule(self) -> Packed | None:
        """Return a schedule's attributes, without our wrapper of its `step`."""
        if self.scheduler is None:
            return None
        return {key: value for key, value in self.scheduler.state_dict().items() if key != "step"}

    def set_extras(self, packed: Tensor) -> None:
        """Adopt another member's."""
        read = io.BytesIO(ctypes.string_at(packed.data_ptr(), packed.numel()))
        # The sender's device may not exist here.
        extras = torch.load(read, "cpu", weights_only=True)
        self.model.load_state_dict(extras["rest"], strict=False)
        if self.scheduler and extras["scheduler"]:
            self.scheduler.load_state_dict(extras["scheduler"])
