"""The protocol between servers and workers of an asynchronous training, and who holds what.

A worker keeps one connection to each server. Requests are JSON with an `op`; tensors follow in the
order of the server's segments:

| op | with | answer |
|---|---|---|
| pull | | version, then the parameters |
| push | version pulled, unused parameters, then the gradients | version, staleness |
| lease (first server) | the lease that is done, its losses | lease, or wait, or end; perhaps save |
| snapshot | | version, hyper-parameters, schedule, then parameters, then the optimiser's pieces |
| bye | | none: the worker leaves, its training is over |
| end (from the first server) | | none: the training is over |
"""

import socket
import time
import zlib
from collections.abc import Sequence
from typing import Any

from muster.runtime.comm.stream import receive_json
from muster.runtime.errors import BadTrainingError, LostServerError
from muster.runtime.members.peers import connect
from muster.runtime.shards.ownership import Range, merged

KIND = "asynchronous"
"""The kind of request that opens a connection of this training."""

SPLIT = 4 * 2**20
"""Bytes. Larger tensors are split, for even shares."""

START = 60.0
"""Seconds for all servers to start: a task takes a few to import torch."""

PATIENCE = 300.0
"""Seconds after which a silent worker counts as lost. A killed one is noticed at once by its closed
connection; this is for nodes that vanish, and must exceed any mini-batch."""


def lost(servers: Sequence[str], checkpoint: str, problem: object) -> LostServerError:
    """Return the error that names the lost servers, and how to continue."""
    where = (
        f"resume from the latest checkpoint in {checkpoint}" if checkpoint else "no checkpoint is kept"
    )
    return LostServerError(
        f"{' and '.join(f'server {name}' for name in servers)}: gone ({problem}), and with it the "
        f"parameters held there; {where}"
    )


def assign(parameters: Sequence[Any], servers: int) -> list[list[Range]]:
    """Assign ranges of parameters to servers: even bytes, the largest first, to the least loaded."""
    total = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    limit = min(SPLIT, -(-total // servers))
    pieces = [piece for index, p in enumerate(parameters) for piece in _split(index, p, limit)]
    loads = [0] * servers
    found: list[list[Range]] = [[] for _ in range(servers)]
    for size, segment in sorted(pieces, key=lambda piece: (-piece[0], piece[1].tensor, piece[1].begin)):
        least = loads.index(min(loads))
        loads[least] += size
        found[least].append(segment)
    return [merged(segments) for segments in found]


def checksum(parameters: Sequence[Any]) -> int:
    """Return a number that agrees for tasks with the same model."""
    return zlib.crc32(repr([(tuple(p.shape), str(p.dtype)) for p in parameters]).encode())


def join(address: str, role: str, model: int, token: str, wait: float) -> socket.socket:
    """Connect to a server that is ready; retry for `wait` seconds."""
    until = time.monotonic() + wait
    while True:
        try:
            return _joined_once(address, role, model, token)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _joined_once(address: str, role: str, model: int, token: str) -> socket.socket:
    connection = connect(address, {"kind": KIND, "role": role, "checksum": model}, token, PATIENCE)
    try:
        answer = receive_json(connection)
        if "lost" in answer:
            raise LostServerError(answer["lost"])
        if "error" in answer:
            raise BadTrainingError(f"server {address}: {answer['error']}")
    except BaseException:
        connection.close()
        raise
    return connection


def _split(index: int, parameter: Any, limit: int) -> list[tuple[int, Range]]:
    size = parameter.element_size()
    step, count = max(1, limit // size), parameter.numel()
    ends = [(begin, min(begin + step, count)) for begin in range(0, count, step)]
    return [((end - begin) * size, Range(index, begin, end)) for begin, end in ends]
