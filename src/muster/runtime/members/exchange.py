"""Short messages that all workers of a formation give each other beside the step; a collective.

They go through the first worker, point to point: servers run no user code, and take no part.
"""

import time

import torch
from torch import Tensor

from muster.runtime.comm.group import GlooGroup

TAG = 1 << 30
"""Tag of these messages; chunks of gradients have small ones."""


def exchange(group: GlooGroup | None, workers: int, mine: bytes) -> list[bytes]:
    """Return every worker's message, by rank; `BrokenGroupError` if one is lost."""
    if group is None or workers == 1:
        return [mine]
    until = time.monotonic() + group.deadline
    sizes = torch.zeros(workers, dtype=torch.int64)
    sizes[group.rank] = len(mine)
    if group.rank == 0:
        return _lead(group, sizes, mine, until)
    group.send(sizes[group.rank : group.rank + 1], 0, TAG).wait(until)
    group.send(_tensor(mine), 0, TAG).wait(until)
    group.receive(sizes, 0, TAG).wait(until)
    whole = torch.empty(int(sizes.sum()), dtype=torch.uint8)
    group.receive(whole, 0, TAG).wait(until)
    return [_bytes(part) for part in whole.split(sizes.tolist())]


def _lead(group: GlooGroup, sizes: Tensor, mine: bytes, until: float) -> list[bytes]:
    """Collect the messages of the others, and send all to all."""
    others = range(1, len(sizes))
    for work in [group.receive(sizes[rank : rank + 1], rank, TAG) for rank in others]:
        work.wait(until)
    parts = [_tensor(mine), *(torch.empty(int(sizes[rank]), dtype=torch.uint8) for rank in others)]
    for work in [group.receive(parts[rank], rank, TAG) for rank in others]:
        work.wait(until)
    whole = torch.cat(parts)
    sent = [group.send(sizes, rank, TAG) for rank in others]
    sent += [group.send(whole, rank, TAG) for rank in others]
    for work in sent:
        work.wait(until)
    return [_bytes(part) for part in parts]


def _tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _bytes(tensor: Tensor) -> bytes:
    return bytes(tensor.tolist())
