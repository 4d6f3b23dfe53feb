"""Chooses between a ring and owned parameters by their predicted times.

Pure, and the same on all members: only plan and ballots count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from torch import Tensor

from muster.runtime.comm.base import Communicator
from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.nccl import Nccl
from muster.runtime.comm.ring import Ring
from muster.runtime.comm.sharded import CHUNK, AfterSum, Sharded, ranges
from muster.runtime.shards.ownership import OwnedRange, Range, holdings
from muster.split.owners import Owners, edge, water_filled
from muster.wire.tasks.messages import Member

Kind = Literal["none", "ring", "sharded", "dedicated", "nccl"]

LATENCY = 1e-4
"""Seconds of a small message between two nodes: a few switches and two kernels."""
MARGIN = 0.9
"""The default (a ring, or servers) is replaced only by what takes less than this part of its time: on
equal links owners need 1.03 to 1.1 times as long as a ring, and probed links are off by percents."""


SUM_ERROR = 1e-6
"""How far a plan's shares may be from 1 together: rounding."""


@dataclass(frozen=True, slots=True)
class SyncChoice:
    """How to synchronise gradients, each rank's share of the parameters, and why."""

    kind: Kind
    shares: tuple[float, ...] = ()
    """By rank, sum 1; empty without owners."""
    predicted: Mapping[Kind, float] = field(default_factory=dict)
    """Seconds of a step's synchronisation by kind, if the links are known."""
    words: str = ""

    @property
    def told(self) -> tuple[str, Kind, tuple[float, ...]]:
        """As `Changed` has it: in words, the kind, and the shares."""
        return self.words, self.kind, self.shares

    @property
    def owners(self) -> dict[int, float]:
        """Shares by owning rank."""
        return {owner: share for owner, share in enumerate(self.shares) if share > 0}


def choose(
    sync: str,
    members: Sequence[Member],
    sizes: Sequence[int],
    *,
    gpus: bool = False,
    update: bool = False,
    decided: Sequence[float] = (),
) -> SyncChoice:
    """Choose for buckets of these sizes (bytes).

    `sync`: of the plan; `gpus`: each worker has its own GPU; `update`: owners also update, so there
    must be owners; `decided`: their shares by rank, if the plan has them.
    """
    offers = _offers(_owning(sync, members) if update else sync, members)
    if gpus and "ring" in offers:
        return SyncChoice("nccl", words="ring of GPUs")
    hosts = _hosts(members)
    known = len(hosts) > 1 and all(host.bandwidth > 0 for host in hosts)
    shares = {kind: _shares(hosts, owners, known) for kind, owners in offers.items()}
    only = next(iter(offers.values()))
    if len(offers) == 1 and _are_shares(decided, only, len(members)):
        shares = dict.fromkeys(offers, tuple(decided))
    seconds = {kind: _seconds(hosts, shares[kind], sizes) for kind in offers} if known else {}
    kind = _fastest(seconds) if known else next(iter(offers))
    return SyncChoice(kind, shares[kind], seconds, _words(kind, shares[kind], seconds))


def _are_shares(decided: Sequence[float], owners: Sequence[int], size: int) -> bool:
    """Whether a plan's shares are for these members, and give something to owners alone."""
    if len(decided) != size or not owners or min(decided) < 0 or abs(sum(decided) - 1) > SUM_ERROR:
        return False
    return all(share == 0 or rank in owners for rank, share in enumerate(decided))


def make(
    choice: SyncChoice,
    group: GlooGroup,
    flats: Sequence[Tensor],
    members: Sequence[Member],
    after_sum: AfterSum | None = None,
    mirrors: Mapping[int, int] | None = None,
) -> Communicator:
    """Build the chosen communicator for one member; it closes the group with itself.

    `after_sum` and `mirrors`: for owners that also update, see `Sharded`.
    """
    if len(members) != group.size:
        raise ValueError(f"{len(members)} members in a group of {group.size}")
    if choice.kind == "nccl":
        return Nccl(group, flats)
    if not choice.shares:
        return Ring(group, flats)
    workers = range(sum(member.role == "worker" for member in members))
    return Sharded(group, flats, choice.owners, workers, after_sum, mirrors)


def shards(
    choice: SyncChoice, lengths: Sequence[int], members: Sequence[Member]
) -> tuple[OwnedRange, ...]:
    """Assign owners and mirrors to parts of buckets of these lengths."""
    owners = choice.owners
    owned = [
        (Range(bucket, begin, end), owner)
        for bucket, length in enumerate(lengths)
        for owner, (begin, end) in zip(owners, ranges(length, owners), strict=True)
        if begin < end
    ]
    workers = [rank for rank, member in enumerate(members) if member.role == "worker"]
    names = [member.task for member in members]
    return tuple(holdings(owned, names, workers, [host_of(member) for member in members]))


def _owning(sync: str, members: Sequence[Member]) -> str:
    """Replace a ring, which has no owners."""
    servers = any(member.role != "worker" for member in members)
    return "dedicated" if servers and sync in ("auto", "dedicated") else "sharded"


def _offers(sync: str, members: Sequence[Member]) -> dict[Kind, list[int]]:
    """Return the possible kinds and their owners' ranks; the first is the default."""
    workers = [rank for rank, member in enumerate(members) if member.role == "worker"]
    servers = [rank for rank, member in enumerate(members) if member.role != "worker"]
    if sync == "sharded" or (sync == "ring" and servers):  # a server has no gradients for a ring
        return {"sharded": workers}
    if servers:
        both: dict[Kind, list[int]] = {"dedicated": servers, "sharded": workers + servers}
        return both if sync == "auto" else {"dedicated": servers}
    return {"ring": []} if sync == "ring" else {"ring": [], "sharded": workers}


# predicted times


@dataclass(frozen=True, slots=True)
class _Host:
    """Members behind one link: its bytes/s each way, their ranks, and the workers among them."""

    bandwidth: float
    ranks: tuple[int, ...]
    workers: tuple[int, ...]


def _hosts(members: Sequence[Member]) -> list[_Host]:
    """Group members by host, in the order of their first ranks."""
    by_host: dict[str, list[int]] = {}
    for rank, member in enumerate(members):
        by_host.setdefault(host_of(member), []).append(rank)
    return [
        _Host(
            max(members[rank].bandwidth for rank in ranks),
            tuple(ranks),
            tuple(rank for rank in ranks if members[rank].role == "worker"),
        )
        for ranks in by_host.values()
    ]


def host_of(member: Member) -> str:
    return member.address.rpartition(":")[0]


def _shares(hosts: Sequence[_Host], owners: Sequence[int], known: bool) -> tuple[float, ...]:
    """Return each rank's share: water-filled over the hosts' links, equal if they are unknown."""
    if not owners:
        return ()
    size, n = sum(len(host.ranks) for host in hosts), sum(len(host.workers) for host in hosts)
    shares = [0.0] * size
    behind = [[rank for rank in host.ranks if rank in owners] for host in hosts]
    if known:
        # A host is a rack: T = (k S + (n - 2k) O)/bw, k of n workers and the share O behind it.
        racks = [
            Owners([edge(len(host.workers), n, host.bandwidth)], [((), 1) for _ in ranks])
            for host, ranks in zip(hosts, behind, strict=True)
        ]
        # A worker that owns nothing still pushes and pulls everything: no step ends before that.
        floor = max(rack.edges[0][0] for rack in racks)
        filled = water_filled([rack for rack in racks if rack.owners], floor)
        parts = [part for parts in filled for part in parts]
    else:
        parts = [1 / len(owners)] * len(owners)
    for rank, part in zip((rank for ranks in behind for rank in ranks), parts, strict=True):
        shares[rank] = part
    return tuple(shares)


def _seconds(hosts: Sequence[_Host], shares: Sequence[float], sizes: Sequence[int]) -> float:
    """Predict one synchronisation: the time of the slowest host."""
    n, total = sum(len(host.workers) for host in hosts), sum(sizes)
    if not shares:
        # Bandwidth: each worker sends 2 (n-1)/n of all; latency: per round and bucket.
        rounds = 2 * (n - 1)
        most = max(crossings / host.bandwidth for host, crossings in _crossings(hosts))
        return rounds / n * total * most + rounds * LATENCY * len(sizes)
    return max(_owned_seconds(host, n, shares, total) for host in hosts) + 2 * LATENCY


def _owned_seconds(host: _Host, n: int, shares: Sequence[float], total: int) -> float:
    """T_j of the notes, plus the lag of pulls behind pushes: a chunk per owner."""
    base, slope = edge(len(host.workers), n, host.bandwidth)
    seconds = (base + slope * sum(shares[rank] for rank in host.ranks)) * total
    others = [share for rank, share in enumerate(shares) if rank not in host.ranks]
    return seconds + base * sum(min(CHUNK, share * total) for share in others)


def _crossings(hosts: Sequence[_Host]) -> list[tuple[_Host, int]]:
    """Count how often a ring in rank order leaves each host."""
    home = {rank: i for i, host in enumerate(hosts) for rank in host.workers}
    runs = [host for host, _ in groupby(home[rank] for rank in sorted(home))]
    if len(runs) > 1 and runs[0] == runs[-1]:
        runs.pop()
    return [(host, runs.count(i)) for i, host in enumerate(hosts)]


def _fastest(seconds: Mapping[Kind, float]) -> Kind:
    """Return the first kind, unless another is clearly faster."""
    first, *_ = seconds
    best = min(seconds, key=seconds.__getitem__)
    return best if seconds[best] < MARGIN * seconds[first] else first


def _words(kind: Kind, shares: Sequence[float], seconds: Mapping[Kind, float]) -> str:
    names = {"ring": "ring", "sharded": "sharded owners", "dedicated": "servers"}
    words = names[kind]
    if shares:
        words += f" {'/'.join(f'{share * 100:.0f}' for share in shares)} %"
    if seconds:
        words += f", predicted {seconds[kind]:.3g} s"
    others = [f"{seconds[k]:.3g} s by {names[k]}" for k in seconds if k != kind]
    return f"{words} against {', '.join(others)}" if others else words
