"""Tensors one after the other in a flat one: where each begins and ends."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from torch import Tensor


def adjoining(sizes: Iterable[int]) -> list[tuple[int, int]]:
    """Return the elements [begin, end) of tensors of these sizes."""
    return list(pairwise(accumulate(sizes, initial=0)))


def shaped(flat: Tensor, slot: tuple[int, int], shape: Sequence[int]) -> Tensor:
    """Return a part of a flat as a tensor of a shape, not copied."""
    return flat[slot[0] : slot[1]].view(shape)
