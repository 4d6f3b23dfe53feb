"""Ways to synchronise the gradients of a step for real: gloo's rings, and owners that sum chunks."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

import torch
from torch import Tensor, distributed

from support.cases import CHUNK, share_out

Torch: Any = distributed
"""Gloo's own classes, which torch's annotations leave out."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """One bucket's synchronisation as a worker saw it: bytes of gradients, seconds from its hand-over
    (or the end of the bucket before) to its result."""

    bytes: int
    seconds: float


class Group(Protocol):
    """What is used of a gloo process group; each call but `rank` answers with work to wait for."""

    def rank(self) -> int: ...
    def barrier(self) -> Any: ...
    def allreduce(self, tensors: list[Tensor], how: Any) -> Any: ...
    def broadcast(self, tensor: Tensor, root: int) -> Any: ...
    def send(self, tensors: list[Tensor], to: int, tag: int) -> Any: ...
    def recv(self, tensors: list[Tensor], source: int, tag: int) -> Any: ...


class Synchroniser(Protocol):
    """Combines the buckets of one step after the other."""

    def begin(self) -> None:
        """A step begins: nothing is ready yet."""

    def put(self, bucket: int) -> None:
        """This bucket's gradients are ready; returns at once."""

    def finish(self) -> list[Transfer]:
        """Wait until all buckets are combined."""


class Alone:
    """No synchronisation: compute only."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def begin(self) -> None:
        """Nothing to prepare."""

    def put(self, bucket: int) -> None:
        """Nothing to send."""

    def finish(self) -> list[Transfer]:
        """For each other only, so that all compute at once, as they do when they synchronise."""
        self._group.barrier().wait()
        return []


class Rings:
    """Buckets one after the other through collectives, by a thread of their own."""

    def __init__(self, flats: Sequence[Tensor], combine: Callable[[Tensor], None]) -> None:
        self._flats, self._combine = flats, combine
        self._ready: SimpleQueue[tuple[int, float]] = SimpleQueue()
        self._done: SimpleQueue[Transfer] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def begin(self) -> None:
        """Nothing to prepare."""

    def put(self, bucket: int) -> None:
        """This bucket's gradients are ready."""
        self._ready.put((bucket, time.perf_counter()))

    def finish(self) -> list[Transfer]:
        """Wait until all buckets are combined."""
        return [self._done.get() for _ in self._flats]

    def _serve(self) -> None:
        before = 0.0
        while True:
            bucket, handed = self._ready.get()
            self._combine(self._flats[bucket])
            now = time.perf_counter()
            self._done.put(Transfer(self._flats[bucket].nbytes, now - max(handed, before)))
            before = now


def over_all(group: Group, flat: Tensor) -> None:
    """One ring over all workers."""
    group.allreduce([flat], Torch.ReduceOp.SUM).wait()


def by_levels(local: Group | None, leaders: Group | None, flat: Tensor) -> None:
    """A ring inside the node, a ring over the nodes' first workers, and back."""
    if local is not None:
        local.allreduce([flat], Torch.ReduceOp.SUM).wait()
    if leaders is not None:
        leaders.allreduce([flat], Torch.ReduceOp.SUM).wait()
    if local is not None:
        local.broadcast(flat, 0).wait()


@dataclass(frozen=True, slots=True)
class Chunk:
    """Elements of one bucket that one owner combines at once; `tag` is unique in a step."""

    bucket: int
    owner: int
    begin: int
    end: int
    tag: int


def cut(sizes: Sequence[int], shares: Sequence[float], owners: Sequence[int]) -> tuple[Chunk, ...]:
    """Every bucket cut among the owners (ranks) and into chunks, the owners' chunks taking turns."""
    chunks: list[Chunk] = []
    for bucket, size in enumerate(sizes):
        pieces = [
            (at - begin, owner, at, min(at + CHUNK // 4, end))
            for owner, (begin, end) in zip(owners, share_out(size, shares), strict=True)
            for at in range(begin, end, CHUNK // 4)
        ]
        for _, owner, begin, end in sorted(pieces):
            chunks.append(Chunk(bucket, owner, begin, end, len(chunks)))
    return tuple(chunks)


class Owners:
    """Push every chunk to its owner, pull the sum from it; an owner sums and hands back.

    gloo sends data only when it knows that the other side has posted its receive, and that word queues
    behind data on the same connection: so all receives of a step are posted before its first send.
    """

    def __init__(
        self, group: Group, flats: Sequence[Tensor], chunks: Sequence[Chunk], workers: range
    ) -> None:
        self._group, self._flats = group, flats
        self._rank, self._workers = group.rank(), workers
        self._owned = [chunk for chunk in chunks if chunk.owner == self._rank]
        self._others = [chunk for chunk in chunks if chunk.owner != self._rank] if self._works else []
        self._peers = [rank for rank in workers if rank != self._rank]
        self._pushed = {
            (c.tag, peer): torch.empty(c.end - c.begin) for c in self._owned for peer in self._peers
        }
        self._pulls: dict[int, list[Any]] = {}
        self._arrivals: dict[int, list[Any]] = {}
        self._sends: list[Any] = []
        self._handed: dict[int, float] = {}
        self._ready: SimpleQueue[int] = SimpleQueue()
        self._own: SimpleQueue[int] = SimpleQueue()
        self._summed: SimpleQueue[list[Any]] = SimpleQueue()
        threading.Thread(target=self._push, daemon=True).start()
        threading.Thread(target=self._sum, daemon=True).start()

    @property
    def _works(self) -> bool:
        return self._rank in self._workers

    def begin(self) -> None:
        """Post every receive of the step."""
        self._pulls = {bucket: [] for bucket in range(len(self._flats))}
        for chunk in self._others:
            work = self._group.recv([self._view(chunk)], chunk.owner, 2 * chunk.tag + 1)
            self._pulls[chunk.bucket].append(work)
        self._arrivals = {
            chunk.tag: [
                self._group.recv([self._pushed[chunk.tag, peer]], peer, 2 * chunk.tag)
                for peer in self._peers
            ]
            for chunk in self._owned
        }

    def put(self, bucket: int) -> None:
        """This bucket's gradients are ready."""
        self._handed[bucket] = time.perf_counter()
        self._ready.put(bucket)

    def finish(self) -> list[Transfer]:
        """Wait until all sums are here and all that was sent is gone."""
        transfers, before = [], 0.0
        for bucket, flat in enumerate(self._flats):
            sends = self._summed.get()
            for work in (*self._pulls[bucket], *sends):
                work.wait()
            now = time.perf_counter()
            transfers.append(Transfer(flat.nbytes, now - max(before, self._handed[bucket])))
            before = now
        for work in self._sends:
            work.wait()
        self._sends.clear()
        return transfers

    def _view(self, chunk: Chunk) -> Tensor:
        return self._flats[chunk.bucket][chunk.begin : chunk.end]

    def _push(self) -> None:
        """Thread: send what is ready to its owners, then let the owner's part of it be summed."""
        while True:
            bucket = self._ready.get()
            for chunk in self._others:
                if chunk.bucket == bucket:
                    self._sends.append(
                        self._group.send([self._view(chunk)], chunk.owner, 2 * chunk.tag)
                    )
            self._own.put(bucket)

    def _sum(self) -> None:
        """Thread: add up each owned chunk when all of it has come, and send the sum back."""
        while True:
            bucket = self._own.get()
            sends: list[Any] = []
            for chunk in self._owned:
                if chunk.bucket == bucket:
                    sends += self._combine(chunk)
            self._summed.put(sends)

    def _combine(self, chunk: Chunk) -> list[Any]:
        total = self._view(chunk)
        if not self._works:
            total.zero_()
        for peer, arrival in zip(self._peers, self._arrivals[chunk.tag], strict=True):
            arrival.wait()
            total += self._pushed[chunk.tag, peer]
        return [self._group.send([total], peer, 2 * chunk.tag + 1) for peer in self._peers]
