"""Tensors and JSON over a blocking TCP socket.

Every item is its length (8 bytes, big-endian), then its bytes; both ends know a tensor's shape and
type. Timeouts are the socket's and count silence only. A lost peer or unexpected data is a
`ConnectionError`, a silent peer a `TimeoutError`; after either the socket is unusable.
"""

import ctypes
import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

JSON_LIMIT = 64 * 2**20
"""Bytes. Longer messages are errors or strangers; bulk data travels as tensors."""

_LENGTH = struct.Struct("!Q")


def send_tensor(sock: socket.socket, tensor: Tensor) -> None:
    """Send a tensor's elements; copies it unless it is contiguous in host memory."""
    with torch.no_grad():
        here = tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous()
    _send(sock, memoryview(_LENGTH.pack(_size(here))))
    _send(sock, memory_of(here))


def receive_into(sock: socket.socket, tensor: Tensor) -> None:
    """Receive elements into a tensor of the sent shape and type."""
    target = tensor.detach()
    direct = target.is_cpu and target.is_contiguous() and not (target.is_conj() or target.is_neg())
    here = target if direct else torch.empty(target.shape, dtype=target.dtype)
    length = _receive_length(sock)
    if length != _size(here):
        raise ConnectionError(f"expected a tensor of {_size(here)} bytes, the peer sent {length}")
    _receive(sock, memory_of(here))
    if not direct:
        target.copy_(here)


def send_bytes(sock: socket.socket, data: bytes) -> None:
    """Send bytes of a length that both ends know."""
    _send(sock, memoryview(data))


def receive_bytes(sock: socket.socket, count: int, until: float) -> bytes:
    """Receive a fixed number of bytes by a time of `time.monotonic`, however slowly they come."""
    data = bytearray(count)
    view = memoryview(data)
    while len(view):
        sock.settimeout(max(1e-3, until - time.monotonic()))
        got = _moved(sock.recv_into, view)
        if got == 0:
            raise ConnectionError("the peer closed the connection")
        view = view[got:]
    return bytes(data)


def send_json(sock: socket.socket, value: Any) -> None:
    data = json.dumps(value, separators=(",", ":")).encode()
    if len(data) > JSON_LIMIT:
        raise ValueError(f"a message of {len(data)} bytes is longer than {JSON_LIMIT}")
    _send(sock, memoryview(_LENGTH.pack(len(data)) + data))


def receive_json(sock: socket.socket) -> Any:
    length = _receive_length(sock)
    if length > JSON_LIMIT:
        raise ConnectionError(
            f"the peer announced a message of {length} bytes; the limit is {JSON_LIMIT}"
        )
    data = bytearray(length)
    _receive(sock, memoryview(data))
    try:
        return json.loads(data)
    except ValueError as problem:
        raise ConnectionError(f"the peer sent something that is not JSON: {problem}") from problem


def _size(tensor: Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def memory_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous host tensor; the caller keeps the tensor alive."""
    size = _size(tensor)
    if size == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * size).from_address(tensor.data_ptr())).cast("B")


def _receive_length(sock: socket.socket) -> int:
    data = bytearray(_LENGTH.size)
    _receive(sock, memoryview(data))
    return int(_LENGTH.unpack(data)[0])


def _send(sock: socket.socket, data: memoryview) -> None:
    """Not `sendall`: its timeout covers the whole, ours only silence."""
    done = 0
    while done < len(data):
        done += _moved(sock.send, data[done:])


def _receive(sock: socket.socket, data: memoryview) -> None:
    done = 0
    while done < len(data):
        count = _moved(sock.recv_into, data[done:])
        if count == 0:
            raise ConnectionError("the peer closed the connection")
        done += count


def _moved(call: Callable[[memoryview], int], data: memoryview) -> int:
    """Call a socket's method; turn its errors into the two that callers know."""
    try:
        return call(data)
    except (ConnectionError, TimeoutError):
        raise
    except OSError as problem:
        raise ConnectionError(f"the connection is lost: {problem}") from problem
