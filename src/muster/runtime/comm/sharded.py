"""Owned parameters: each chunk of a bucket is pushed to its owner, summed there, and pulled back.

Owners are the workers (sharded) or servers, which have no gradients (dedicated). gloo sends data only
after the other side has announced its receive, and the announcement queues behind data on the same
connection: so all receives of a step are posted before its first send.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from queue import Empty, SimpleQueue

import torch
from torch import Tensor

from muster.runtime.comm.group import GlooGroup, Work
from muster.runtime.errors import BrokenGroupError

CHUNK = 256 * 1024
"""Bytes per push or pull: small enough to overlap pulls with pushes, large enough that the calls cost
little beside the transfer."""

AfterSum = Callable[[int, int, int, Tensor], None]
"""What an owner does with a summed chunk before sending it back: (bucket, begin, end, sum)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Elements of one bucket that one owner (a rank) sums at once; `tag` is unique in a step."""

    bucket: int
    owner: int
    begin: int
    end: int
    tag: int


def cut(sizes: Sequence[int], limits: Sequence[int], owners: Mapping[int, float]) -> tuple[Chunk, ...]:
    """Split buckets among the owners by share, and into chunks within the limit.

    Each owner's chunks are spread over the whole bucket, so that all owners work at the same time.
    """
    chunks: list[Chunk] = []
    for bucket, (size, limit) in enumerate(zip(sizes, limits, strict=True)):
        pieces = [
            ((at - begin) / (end - begin), owner, at, min(at + limit, end))
            for owner, (begin, end) in zip(owners, ranges(size, owners), strict=True)
            for at in range(begin, end, limit)
        ]
        for _, owner, begin, end in sorted(pieces):
            chunks.append(Chunk(bucket, owner, begin, end, len(chunks)))
    return tuple(chunks)


def ranges(size: int, owners: Mapping[int, float]) -> list[tuple[int, int]]:
    """Return adjacent ranges of elements, one per owner."""
    total = sum(owners.values())
    reached = accumulate(owners.values(), initial=0.0)
    return list(pairwise(round(size * share / total) for share in reached))


class Sharded:
    """Pushes to owners and pulls from them, chunk by chunk; the last flat is summed over all members.

    A server's flats except the last are unused and may be on the meta device.
    """

    def __init__(
        self,
        group: GlooGroup,
        flats: Sequence[Tensor],
        owners: Mapping[int, float],
        workers: range | None = None,
        after_sum: AfterSum | None = None,
        mirrors: Mapping[int, int] | None = None,
    ) -> None:
        """`owners`: share of each owning rank.

        `mirrors`: by owner, the worker that gets the plain sum back and does `after_sum` itself.
        """
        self._group, self._flats, self._after_sum = group, flats, after_sum
        self._mirrors = mirrors or {}
        workers = range(group.size) if workers is None else workers
        self._works = group.rank in workers
        self._peers = [rank for rank in workers if rank != group.rank]
        limits = [max(1, CHUNK // flat.element_size()) for flat in flats[:-1]]
        chunks = cut([flat.numel() for flat in flats[:-1]], limits, owners)
        self._owned = [chunk for chunk in chunks if chunk.owner == group.rank]
        self._others = [chunk for chunk in chunks if chunk.owner != group.rank] if self._works else []
        # Workers sum in place, servers in buffers of their own.
        place = self._view if self._works else self._space
        self._totals = {chunk.tag: place(chunk) for chunk in self._owned}
        self._inboxes = {
            (c.tag, peer): self._inbox(c, peer) for c in self._owned for peer in self._peers
        }
        mirrored = self._mirrors.get(group.rank) is not None
        self._plain = {c.tag: self._space(c) for c in self._owned} if mirrored else {}
        self._pulls: dict[int, list[tuple[Chunk, Work]]] = {}
        self._arrivals: dict[int, list[Work]] = {}
        self._ballot: Work | None = None
        self._order: list[int] = []
        self._ready: SimpleQueue[int | None] = SimpleQueue()
        self._own: SimpleQueue[int | None] = SimpleQueue()
        self._summed: SimpleQueue[list[Work] | Exception] = SimpleQueue()
        self._pushes: list[Work] = []
        self._threads = [
            threading.Thread(target=self._serve, args=each, daemon=True)
            for each in ((self._ready, self._push), (self._own, self._sum))
        ]
        for thread in self._threads:
            thread.start()

    def begin(self) -> None:
        """Post all receives of the step."""
        last = len(self._flats) - 1
        self._order, self._pushes = [], []
        self._pulls = {bucket: [] for bucket in range(last)}
        for chunk in self._others:
            work = self._group.receive(self._view(chunk), chunk.owner, 2 * chunk.tag + 1)
            self._pulls[chunk.bucket].append((chunk, work))
        self._arrivals = {
            chunk.tag: [
                self._group.receive(self._inboxes[chunk.tag, peer], peer, 2 * chunk.tag)
                for peer in self._peers
            ]
            for chunk in self._owned
        }
        if not self._works:  # a server has no gradients to wait for
            self._hand_over(range(last), self._own)

    def put(self, bucket: int) -> None:
        if bucket == len(self._flats) - 1:
            self._ballot = self._group.allreduce(self._flats[bucket])
        elif self._works:
            self._hand_over((bucket,), self._ready)

    def finish(self) -> None:
        """Wait until all sums have arrived and everything is sent."""
        until = time.monotonic() + self._group.deadline
        for bucket in self._order:
            for work in self._take_summed(until):
                work.wait(until)
            for chunk, work in self._pulls[bucket]:
                work.wait(until)
                if self._mirrors.get(chunk.owner) == self._group.rank:
                    self._finish_chunk(chunk, self._view(chunk))
        for work in self._pushes:
            work.wait(until)
        if self._ballot is not None:
            self._ballot.wait(until)

    def close(self) -> None:
        """Drop the group and end the threads."""
        self._group.close()
        self._summed.put(BrokenGroupError(f"group {self._group.name} is closed"))
        self._ready.put(None)
        self._own.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    # buffers

    def _view(self, chunk: Chunk) -> Tensor:
        return self._flats[chunk.bucket][chunk.begin : chunk.end]

    def _inbox(self, chunk: Chunk, peer: int) -> Tensor:
        """Where a peer's part of an owned chunk arrives; a server sums into the first one."""
        first = not self._works and peer == self._peers[0]
        return self._totals[chunk.tag] if first else self._space(chunk)

    def _space(self, chunk: Chunk) -> Tensor:
        return torch.empty(chunk.end - chunk.begin, dtype=self._flats[chunk.bucket].dtype)

    # the two threads

    def _hand_over(self, buckets: Sequence[int], queue: SimpleQueue[int | None]) -> None:
        self._order += buckets
        for bucket in buckets:
            queue.put(bucket)

    def _take_summed(self, until: float) -> list[Work]:
        """Return the sends of the next bucket, or raise the error of a thread."""
        try:
            sent = self._summed.get(timeout=max(1e-3, until - time.monotonic()))
        except Empty:
            raise BrokenGroupError(f"no sum within {self._group.deadline:g} s") from None
        if isinstance(sent, Exception):
            raise sent
        return sent

    def _serve(self, queue: SimpleQueue[int | None], handle: Callable[[int], None]) -> None:
        """Handle buckets until `close` (own thread)."""
        while (bucket := queue.get()) is not None:
            try:
                handle(bucket)
            except Exception as problem:  # raised by `finish`
                self._summed.put(problem)

    def _push(self, bucket: int) -> None:
        """Send a bucket to its owners, then let the owned part be summed."""
        for chunk in self._others:
            if chunk.bucket == bucket:
                self._pushes.append(self._group.send(self._view(chunk), chunk.owner, 2 * chunk.tag))
        self._own.put(bucket)

    def _sum(self, bucket: int) -> None:
        """Sum each owned chunk when all parts have arrived, and send the sum back."""
        sent: list[Work] = []
        for chunk in self._owned:
            if chunk.bucket == bucket:
                sent += self._combine(chunk)
        self._summed.put(sent)

    def _combine(self, chunk: Chunk) -> list[Work]:
        total = self._totals[chunk.tag]
        for peer, arrival in zip(self._peers, self._arrivals[chunk.tag], strict=True):
            arrival.wait()
            part = self._inboxes[chunk.tag, peer]
            if part is not total:
                total += part
        mirror, back = self._mirrors.get(chunk.owner), dict.fromkeys(self._peers, total)
        if mirror is not None:
            back[mirror] = self._plain[chunk.tag].copy_(total)
        self._finish_chunk(chunk, total)
        return [self._group.send(sent, peer, 2 * chunk.tag + 1) for peer, sent in back.items()]

    def _finish_chunk(self, chunk: Chunk, total: Tensor) -> None:
        """Apply `after_sum`, on the owner and on its mirror."""
        if self._after_sum is not None:
            self._after_sum(chunk.bucket, chunk.begin, chunk.end, total)
