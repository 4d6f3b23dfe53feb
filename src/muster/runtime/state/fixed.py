"""Tensors of a model that training does not change: frozen parameters and large buffers.

They go to a joiner before anything else and outside of windows, each only if the joiner's own differs:
workers that loaded the same file need nothing. One that does change meanwhile shows by its stamp and
is sent again with the rest.
"""

import hashlib
import socket
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from muster.runtime.comm.stream import memory_of, receive_into, receive_json, send_json, send_tensor
from muster.runtime.errors import CannotJoinError
from muster.runtime.state.checksum import bit_sum

LARGE = 1 << 16
"""Bytes: smaller ones are copied with the rest."""
SAMPLE = 4096
"""Elements that a stamp looks at: `tensor.data.mul_()` counts no version, but changes nearly all."""
SLICE = 16 << 20
"""Bytes brought from a GPU at a time to be hashed."""

Stamp = tuple[int, int, int]
"""Address, version, checksum of a sample."""
InHost = Callable[[Tensor], Tensor]


def is_large(tensor: Tensor) -> bool:
    """Whether a tensor is worth a message of its own."""
    return tensor.layout == torch.strided and tensor.numel() * tensor.element_size() > LARGE


def stamp(tensor: Tensor) -> Stamp:
    """Return what is different after a change."""
    flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else tensor.detach()[:1].reshape(-1)
    sample = flat[:: max(1, flat.numel() // SAMPLE)].contiguous()
    version = 0 if tensor.is_inference() else int(tensor._version)
    return tensor.data_ptr(), version, int(bit_sum(sample))


class FixedSender:
    """The donor's side."""

    def __init__(self, in_host: InHost) -> None:
        self._in_host = in_host
        self._digests: dict[str, tuple[Stamp, str]] = {}

    def send(self, connection: socket.socket, tensors: Mapping[str, Tensor]) -> dict[str, Stamp]:
        """Send what the joiner lacks; return the stamps of what it has now."""
        stamps = {name: stamp(tensor) for name, tensor in tensors.items()}
        told = [
            [name, list(tensor.shape), str(tensor.dtype), self._digest(name, tensor, stamps[name])]
            for name, tensor in tensors.items()
        ]
        send_json(connection, {"fixed": told})
        for name in receive_json(connection)["wanted"]:
            send_tensor(connection, self._in_host(tensors[name]))
        return stamps

    def _digest(self, name: str, tensor: Tensor, now: Stamp) -> str:
        """Hash a tensor, once for all joiners."""
        known = self._digests.get(name)
        if known is None or known[0] != now:
            known = self._digests[name] = now, digest(tensor, self._in_host)
        return known[1]


def receive_fixed(connection: socket.socket, tensors: Mapping[str, Tensor]) -> None:
    """Receive what differs here into its place (joiner's side)."""
    told = receive_json(connection)["fixed"]
    for name, shape, dtype, _ in told:
        mine = tensors.get(name)
        if mine is None or (list(mine.shape), str(mine.dtype)) != (shape, dtype):
            raise CannotJoinError(
                f"{name} is {dtype}{shape} on the others and "
                f"{f'{mine.dtype}{list(mine.shape)}' if mine is not None else 'not trained by them'} "
                "here: every worker must build the same model"
            )
    wanted = [name for name, _, _, theirs in told if digest(tensors[name]) != theirs]
    send_json(connection, {"wanted": wanted})
    for name in wanted:
        receive_into(connection, tensors[name])


def digest(tensor: Tensor, in_host: InHost = lambda tensor: tensor.cpu()) -> str:
    """Return the SHA-256 of a tensor's elements."""
    flat = tensor.detach().reshape(-1)
    found, step = hashlib.sha256(), max(1, SLICE // flat.element_size())
    for begin in range(0, flat.numel(), step):
        part = flat[begin : begin + step]
        here = (in_host(part) if part.is_cuda else part).contiguous()
        found.update(memory_of(here))
    return found.hexdigest()
