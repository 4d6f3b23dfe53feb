"""How members exchange the flats of units: gather shares, sum gradients, pass sums to mirrors.

Each call starts a transfer and returns it; its `wait` may raise `BrokenGroupError`. All members start
the same transfers in the same order.

Of n workers, a mirror has two shares of n, and what it has it need not receive. Two workers have
everything: they gather nothing, and sum their gradients once. Per step and worker, in models:

              gather twice   sum         mirror
n = 2         -              1           -         1
n > 2         2 (n-2)/n      (n-1)/n     1/n       3 - 4/n
no mirrors    2 (n-1)/n      (n-1)/n     -         3 - 3/n (FSDP, too)
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from muster.runtime.comm.group import GlooGroup, Torch, Work
from muster.runtime.comm.nccl import Nccl
from muster.runtime.sharded.layout import ShareLayout

GATHER, REDUCE, MIRROR, KINDS = 0, 1, 2, 3
"""Kinds of transfers: a message's tag is its unit's number times `KINDS` and its kind."""
DIRECT = 8
"""Most workers whose GPUs send each other shares directly: of more, mirrors save less than an eighth of
a gather, and NCCL's rings are the better way to move it."""


class ShareTransfer(Protocol):
    """A transfer in progress."""

    def wait(self) -> None:
        """Wait until it is done; on a GPU, let the current stream wait."""


class ShareExchange(Protocol):
    """Transfers between the members of one formation."""

    rank: int
    size: int

    def gather(self, full: Tensor, unit: int) -> ShareTransfer:
        """Fill a flat of equal shares, of which this member has written those it keeps."""

    def sum(self, grads: Tensor) -> ShareTransfer:
        """Sum all members' flats, in place."""

    def reduce(self, grads: Tensor, total: Tensor, unit: int) -> ShareTransfer:
        """Sum all members' flats; this member's share of the sum goes to `total`."""

    def mirror(self, total: Tensor, copies: Sequence[tuple[int, Tensor]], unit: int) -> ShareTransfer:
        """Send a summed share to its mirror; receive those of the given owners."""


class _Done:
    """A transfer of nothing."""

    def wait(self) -> None:
        """Nothing to wait for."""


class SoleExchange:
    """The exchange of a single member, which has everything."""

    rank, size = 0, 1

    def gather(self, full: Tensor, unit: int) -> ShareTransfer:
        """Nothing to receive."""
        return _Done()

    def sum(self, grads: Tensor) -> ShareTransfer:
        """The sum is its own gradient."""
        return _Done()

    def reduce(self, grads: Tensor, total: Tensor, unit: int) -> ShareTransfer:
        """The sum is its own gradient."""
        total.copy_(grads)
        return _Done()

    def mirror(self, total: Tensor, copies: Sequence[tuple[int, Tensor]], unit: int) -> ShareTransfer:
        """Nobody mirrors it."""
        return _Done()


class ShareRoutes:
    """Where a member sends its share, and gets those it lacks: nobody gets what it keeps."""

    def __init__(self, rank: int, size: int, layout: ShareLayout) -> None:
        kept = [layout.kept(each) for each in range(size)]
        self.sources = [peer for peer in range(size) if peer not in kept[rank]]
        """Owners of the shares that this member lacks."""
        self.targets = [peer for peer in range(size) if rank not in kept[peer]]
        """Members that lack this one's."""


class _Works:
    def __init__(self, works: list[Work]) -> None:
        self._works = works

    def wait(self) -> None:
        for work in self._works:
            work.wait()
        self._works = []


class _Sum(_Works):
    """Gradients on their way to their owner, which adds them up."""

    def __init__(self, works: list[Work], total: Tensor, inboxes: list[Tensor]) -> None:
        super().__init__(works)
        self._total, self._inboxes = total, inboxes

    def wait(self) -> None:
        super().wait()
        for inbox in self._inboxes:  # by rank: all redo a step in the same order of additions
            self._total += inbox
        self._inboxes = []


class GlooExchange:
    """Direct messages in host memory: each byte crosses the network once, and lengths may differ.

    gloo's own reduce-scatter is an all-reduce, with twice the traffic.
    """

    def __init__(self, group: GlooGroup, layout: ShareLayout) -> None:
        self.rank, self.size, self._group = group.rank, group.size, group
        self._peers = [rank for rank in range(group.size) if rank != group.rank]
        self._mirrors, self._routes = layout.mirrors, ShareRoutes(group.rank, group.size, layout)

    def gather(self, full: Tensor, unit: int) -> ShareTransfer:
        tag, parts, routes = unit * KINDS + GATHER, full.chunk(self.size), self._routes
        works = [self._group.receive(parts[peer], peer, tag) for peer in routes.sources]
        works += [self._group.send(parts[self.rank], peer, tag) for peer in routes.targets]
        return _Works(works)

    def sum(self, grads: Tensor) -> ShareTransfer:
        return self._group.allreduce(grads)

    def reduce(self, grads: Tensor, total: Tensor, unit: int) -> ShareTransfer:
        tag, parts = unit * KINDS + REDUCE, grads.chunk(self.size)
        total.copy_(parts[self.rank])
        inboxes = [torch.empty_like(total) for _ in self._peers]
        pairs = zip(self._peers, inboxes, strict=True)
        works = [self._group.receive(inbox, peer, tag) for peer, inbox in pairs]
        works += [self._group.send(parts[peer], peer, tag) for peer in self._peers]
        return _Sum(works, total, inboxes)

    def mirror(self, total: Tensor, copies: Sequence[tuple[int, Tensor]], unit: int) -> ShareTransfer:
        tag = unit * KINDS + MIRROR
        works = [self._group.receive(copy, owner, tag) for owner, copy in copies]
        if self._mirrors:
            works.append(self._group.send(total, self._mirrors[self.rank], tag))
        return _Works(works)


class NcclExchange:
    """NCCL's collectives, on a stream of their own beside the computation."""

    def __init__(self, nccl: Nccl, group: GlooGroup, layout: ShareLayout) -> None:
        self.rank, self.size = group.rank, group.size
        self._nccl, self._mirrors = nccl, layout.mirrors
        self._routes = ShareRoutes(group.rank, group.size, layout)
        # Rings carry a share into a host once for all its workers, which direct messages do not.
        self._direct = bool(layout.mirrors) and layout.even and group.size <= DIRECT

    def gather(self, full: Tensor, unit: int) -> ShareTransfer:
        parts = full.chunk(self.size)
        if not self._direct:
            return self._begun(lambda pg: pg._allgather_base(full, parts[self.rank]))
        sent = [(peer, parts[self.rank]) for peer in self._routes.targets]
        return self._messages(sent, [(peer, parts[peer]) for peer in self._routes.sources])

    def sum(self, grads: Tensor) -> ShareTransfer:
        return self._begun(lambda pg: pg.allreduce([grads], Torch.ReduceOp.SUM))

    def reduce(self, grads: Tensor, total: Tensor, unit: int) -> ShareTransfer:
        return self._begun(lambda pg: pg._reduce_scatter_base(total, grads))

    def mirror(self, total: Tensor, copies: Sequence[tuple[int, Tensor]], unit: int) -> ShareTransfer:
        if not self._mirrors:
            return _Done()
        return self._messages([(self._mirrors[self.rank], total)], copies)

    def _messages(
        self, sent: Sequence[tuple[int, Tensor]], received: Sequence[tuple[int, Tensor]]
    ) -> ShareTransfer:
        def exchanged(pg: Any) -> Any:
            # As one group: two neighbours that both send first would wait for each other.
            pg._start_coalescing()
            for peer, share in sent:
                pg.send([share], peer, 0)
            for peer, share in received:
                pg.recv([share], peer, 0)
            return pg._end_coalescing()

        return self._begun(exchanged)

    def _begun(self, call: Callable[[Any], Any]) -> ShareTransfer:
        return Work(self._nccl.start(call), set())
