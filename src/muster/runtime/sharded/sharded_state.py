"""The state of a training whose model is in parts: what is small goes to joiners as a whole."""

import ctypes
import io
from typing import Any

import torch
from torch import Tensor

from muster.runtime.sharded.part_files import assembled
from muster.runtime.state.kept_values import kept_value, schedule_value, set_kept
from muster.runtime.state.state import Packed, TrainingState


class ShardedState(TrainingState):
    """All but parameters and their optimiser state, which are in `KeptParts`."""

    in_parts = True

    def __init__(self, model: Any, optimizer: Any = None, scheduler: Any = None) -> None:
        super().__init__(model, optimizer, scheduler)
        self._signature = super().signature()
        self._layout = self._whole_layout()
        self.saved: tuple[str, tuple[str, ...]] | None = None
        """A checkpoint that was just read: its folder, and the files of its parts."""

    def signature(self) -> str:
        """Describe what a checkpoint must match: the shapes of the whole."""
        return self._signature

    def whole(self) -> Packed:
        """Return all that is not in parts, for a checkpoint."""
        settings = {**self.optimizer.state_dict(), "state": {}}
        found = {**super().whole(), "model": self._buffers(), "optimizer": settings}
        return {**found, "layout": self._layout}

    def restore(self, whole: Packed) -> None:
        """Restore a checkpoint, but for what is in parts: each worker reads its own.

        One of a training that had everything is restored as such: so has this worker, before it begins.
        """
        if self.saved is not None:
            whole = {**whole, "model": {**self.model.state_dict(), **whole["model"]}}
        super().restore(whole)

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

    def _whole_layout(self) -> Packed:
        """Describe the whole, for those who put it together again."""
        every = list(self.model.parameters())
        index = {id(parameter): number for number, parameter in enumerate(every)}
        named = self.model.state_dict(keep_vars=True).items()
        held = [p for group in self.optimizer.param_groups for p in group["params"]]
        return {
            "shapes": [list(parameter.shape) for parameter in every],
            "sizes": [parameter.numel() for parameter in every],
            "keys": [[name, index[id(value)]] for name, value in named if id(value) in index],
            "held": [index[id(parameter)] for parameter in held],
        }

    def _buffers(self) -> dict[str, Any]:
        inside = {id(parameter) for parameter in self.model.parameters()}
        named = self.model.state_dict(keep_vars=True).items()
        return {name: value for name, value in named if id(value) not in inside}


def opened(whole: Packed, where: str, state: TrainingState) -> Packed:
    """Return a checkpoint as a training restores it, with its parts, or a note that each reads its own.

    `where`: the folder it is in.
    """
    if "parts" not in whole:
        return whole
    if not isinstance(state, ShardedState):
        return assembled(where, whole)
    state.saved = (where, tuple(whole["parts"]))
    return {key: value for key, value in whole.items() if key not in ("parts", "layout")}
