"""Who holds which elements of each unit: an equal share per worker, and the mirror of another's.

The flat of a unit is cut into as many shares as there are workers, all of the same length; the last
may reach beyond the end. A worker keeps its own share and, with mirrors, one more: so that memory
stays even, mirrors are a rotation of the ranks.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from muster.runtime.comm.choose import host_of
from muster.runtime.shards.ownership import OwnedRange, Range
from muster.wire.tasks.messages import MemberPlan


@dataclass(frozen=True, slots=True)
class ShareLayout:
    """The workers by rank, and the rank that mirrors each; no mirrors: empty."""

    tasks: tuple[str, ...]
    mirrors: tuple[int, ...] = ()
    even: bool = True
    """Whether all workers are on one host, or each on its own."""

    def span(self, length: int) -> int:
        """Return the elements of a share."""
        return -(-length // len(self.tasks))

    def share(self, rank: int, length: int) -> tuple[int, int]:
        """Return the elements [begin, end) of a unit that a rank owns."""
        span = self.span(length)
        return min(rank * span, length), min((rank + 1) * span, length)

    def kept(self, rank: int) -> list[int]:
        """Return the ranks whose shares a rank keeps, in order: its own and those it mirrors."""
        return sorted({rank, *(owner for owner, mirror in enumerate(self.mirrors) if mirror == rank)})

    @property
    def whole(self) -> bool:
        """Whether every worker keeps all shares: a single one, or two that mirror each other."""
        return len(self.kept(0)) == len(self.tasks)

    def holdings(self, lengths: Sequence[int]) -> tuple[OwnedRange, ...]:
        """Return the shares of all units with their holders."""
        found = []
        for unit, length in enumerate(lengths):
            for rank, task in enumerate(self.tasks):
                begin, end = self.share(rank, length)
                mirror = self.tasks[self.mirrors[rank]] if self.mirrors else None
                if begin < end:
                    found.append(OwnedRange(Range(unit, begin, end), task, mirror))
        return tuple(found)


def layout_of(plan: MemberPlan, mirror: bool) -> ShareLayout:
    """Return the layout of a formation."""
    hosts = [host_of(member) for member in plan.members]
    tasks = tuple(member.task for member in plan.members)
    even = len(set(hosts)) in (1, len(hosts))
    return ShareLayout(tasks, mirrors(hosts) if mirror and len(tasks) > 1 else (), even)


def mirrors(hosts: Sequence[str]) -> tuple[int, ...]:
    """Return the rank that mirrors each rank: one each, and on another host where that is possible.

    Ranks sorted by host and shifted by the largest host's number of ranks: nobody stays on its host
    unless that one has more than half of them all.
    """
    order = sorted(range(len(hosts)), key=lambda rank: (hosts[rank], rank))
    shift = max(Counter(hosts).values()) % len(hosts) or 1
    found = [0] * len(hosts)
    for place, rank in enumerate(order):
        found[rank] = order[(place + shift) % len(order)]
    return tuple(found)
