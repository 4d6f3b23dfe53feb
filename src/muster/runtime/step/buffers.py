"""Buffers of models (BatchNorm's averages, counters) as a step began with them.

The forward pass changes them, so a redone step would change them twice.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

SMALL = 1 << 20
"""Elements of a module's buffers up to which they are copied before they change for the first time."""


class BufferKeeper:
    """Copies of the buffers of modules that change theirs."""

    def __init__(self, models: Iterable[Any]) -> None:
        owners = [list(m.buffers(recurse=False)) for model in models for m in model.modules()]
        self._modules = [buffers for buffers in owners if buffers]
        self._kept: dict[int, list[Tensor]] = {}
        self._seen = [-1 if sum(map(Tensor.numel, b)) <= SMALL else _version(b) for b in self._modules]

    def begin(self) -> None:
        """Keep what a step begins with, of modules that have changed."""
        for place, buffers in enumerate(self._modules):
            if (version := _version(buffers)) == self._seen[place]:
                continue
            if place in self._kept:
                torch._foreach_copy_(self._kept[place], buffers)
            else:
                self._kept[place] = [buffer.clone() for buffer in buffers]
            self._seen[place] = version

    def redo(self) -> None:
        """Go back to what the step began with."""
        with torch.no_grad():
            for place, kept in self._kept.items():
                buffers = self._modules[place]
                if _version(buffers) != self._seen[place]:
                    torch._foreach_copy_(buffers, kept)
                    self._seen[place] = _version(buffers)


def _version(buffers: list[Tensor]) -> int:
    """Return a number that grows when one changes: BatchNorm's averages change with its counter."""
    return sum(buffer._version for buffer in buffers)
