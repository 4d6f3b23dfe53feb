"""MXNet's default assignment of tensors to servers, to compare the planner's with."""

from collections.abc import Sequence

from muster.model.profile import Tensor
from support.assign import ServerLoad

LARGE = 1_000_000
"""Parameters from which a tensor is split over all servers."""


def mxnet(tensors: Sequence[Tensor], servers: int, parameter_bytes: int = 4) -> list[ServerLoad]:
    """Put small tensors on a pseudo-random server each, cut large ones over all."""
    loads = [ServerLoad() for _ in range(servers)]
    for key, tensor in enumerate(tensors):
        if tensor.bytes / parameter_bytes < LARGE:
            loads[(key * 9973) % servers].take(tensor.name, tensor.bytes)
        else:
            for load in loads:
                load.take(tensor.name, tensor.bytes / servers)
    return loads
