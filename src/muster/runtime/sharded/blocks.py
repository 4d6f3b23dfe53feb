"""Finds the blocks of a model: the modules whose parameters are gathered just before they compute."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from muster.runtime.errors import BadTrainingError
from muster.runtime.sharded.unit import Unit

Kinds = bool | type | tuple[type, ...]
"""True: layers of lists of equal modules; else the classes of the blocks."""


class Block:
    """A module and its units; the root block has no module, and is there for the whole step."""

    def __init__(self, number: int, module: Any, units: Sequence[Unit]) -> None:
        self.number, self.module, self.units = number, module, list(units)
        self.here = False
        """Whether its parameters are whole."""
        self.stays = False
        """Whether it was left as it is after its forward pass, to be used next in the backward pass."""

    @property
    def frozen(self) -> bool:
        """Whether some of its parameters are not trained."""
        return not all(unit.trained for unit in self.units)


def find_blocks(model: nn.Module, kinds: Kinds) -> list[Block]:
    """Split a model's parameters into blocks, the root's first; what two blocks share is the root's."""
    modules = _outermost(model, kinds)
    numbers = {id(p): number for number, p in enumerate(model.parameters())}
    owners: dict[int, set[int]] = {number: set() for number in numbers.values()}
    for place, module in enumerate(modules):
        for parameter in module.parameters():
            owners[numbers[id(parameter)]].add(place)
    every, count = list(model.parameters()), 0
    blocks: list[Block] = []
    for place, module in [(-1, None), *enumerate(modules)]:
        mine = [
            n for n, found in owners.items() if (found == {place} if place >= 0 else len(found) != 1)
        ]
        units = []
        for group in _alike(every, mine):
            units.append(Unit(count, [every[number] for number in group], group))
            count += 1
        if units:
            blocks.append(Block(len(blocks), module, units))
    return blocks


def move_buffers(model: nn.Module, device: torch.device) -> None:
    """Move a model's buffers to a device; its parameters follow part by part."""
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = buffer.to(device)


def _alike(every: Sequence[Any], numbers: Sequence[int]) -> list[list[int]]:
    """Group parameters by type and by whether they are trained."""
    groups: dict[tuple[Any, bool], list[int]] = {}
    for number in numbers:
        parameter = every[number]
        groups.setdefault((parameter.dtype, parameter.requires_grad), []).append(number)
    return list(groups.values())


def _outermost(model: nn.Module, kinds: Kinds) -> list[nn.Module]:
    """Return the blocks' modules; none lies within another."""
    found: list[nn.Module] = []

    def descend(module: nn.Module, listed: bool) -> None:
        for child in module.children():
            chosen = listed if kinds is True else isinstance(child, kinds)  # type: ignore[arg-type]
            if chosen and any(True for _ in child.parameters()):
                if not any(child is other for other in found):
                    found.append(child)
            else:
                descend(child, _is_stack(child))

    descend(model, _is_stack(model))
    if not found:
        wanted = "a list of equal layers" if kinds is True else f"a module of class {_names(kinds)}"
        raise BadTrainingError(
            f"shard= finds no blocks: the model has not {wanted}; name the class of its layers, as in "
            "shard=nn.TransformerEncoderLayer"
        )
    return found


def _is_stack(module: nn.Module) -> bool:
    """Whether a module is a list of at least two modules of one class."""
    children = list(module.children())
    kinds = {type(child) for child in children}
    listed = isinstance(module, nn.ModuleList | nn.Sequential)
    return listed and len(children) > 1 and len(kinds) == 1


def _names(kinds: Any) -> str:
    return " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
