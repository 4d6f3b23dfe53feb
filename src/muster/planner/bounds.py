"""Bounds that no plan of a kind on a layout can pass: what prunes the search.

Computing: all devices busy with balanced parts. Transfers: what cards, ports and racks must carry at
the least, in s for each byte of gradients. n tasks synchronise, k of them behind an edge of B bytes/s:

    ring           2 (n-1)/n / B
    owners         the level of water-filling over cards and racks, see `owners`
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from muster.model.plan import Overlap, Sync
from muster.perf.balance import finish
from muster.perf.costs import Price, step_seconds
from muster.perf.estimate import Unknown, Why
from muster.perf.overlap import Pieces
from muster.planner.candidates import Workshop, edge
from muster.planner.layout import Group, Layout, Rack
from muster.planner.owners import Edge, level
from muster.planner.owners import Rack as Owners


@dataclass(frozen=True, slots=True, order=True)
class Family:
    """Plans of a kind: how they synchronise, tasks of a whole node or not, servers apart or not."""

    sync: Sync
    whole: bool = False
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """Alike nodes of a layout: how many, tasks on each, bytes/s of the card, s/byte inside."""

    nodes: int
    tasks: int
    bandwidth: float
    port: float
    inside: float


class Bounds:
    """Least step times for one model."""

    def __init__(self, workshop: Workshop, pieces: Pieces) -> None:
        self._workshop = workshop
        self._pieces = pieces
        self._servers = workshop.server_cards()

    def compute(self, layout: Layout, batch: int) -> float | Unknown:
        """Seconds of computing with balanced parts, or why it cannot be done."""
        bearers = []
        for group in layout.groups:
            bearer = self._workshop.bearer_on(group.kind.configuration, group.nodes * group.devices)
            if isinstance(bearer, Unknown):
                return bearer
            bearers.append(bearer)
        time = finish(bearers, batch)
        if time == inf:
            return Unknown(Why.OUT_OF_MEMORY, self._workshop.too_large(batch, layout.devices))
        return time

    def least(self, layout: Layout, compute: float) -> float:
        """The least step of any plan on a layout, s."""
        return self._step(compute, self._any(layout))

    def rough(self, layout: Layout, family: Family, compute: float) -> float:
        """The least step of a family of plans on a layout, whoever owns what, s."""
        return self._step(compute, self._rough(layout, family))

    def fine(self, layout: Layout, family: Family, compute: float) -> float:
        """The same with parameters where they are best held, s."""
        per_byte = self._rough(layout, family)
        if family.sync in (Sync.SHARDED, Sync.DEDICATED) and (layout.nodes > 1 or family.apart):
            inside = self._inside(layout) if family.whole else 0.0
            per_byte = max(per_byte, inside + level(self._owners(layout, family)))
        return self._step(compute, per_byte)

    def _step(self, compute: float, per_byte: float) -> float:
        return step_seconds(compute, Price(per_byte), Price(), self._pieces, Overlap.FULL)

    def _any(self, layout: Layout) -> float:
        """The least of a ring, of whole nodes that sum inside and then send, and of single devices."""
        if layout.nodes == 1:
            return 0.0
        cards = self._cards(layout, whole=False)
        inside = max(card.inside for card in cards)
        once = 1 / min(card.bandwidth for card in cards)
        each = max(card.tasks / card.bandwidth for card in cards)
        return min(max(inside, _ring(cards, layout.devices)), inside + once, each)

    def _inside(self, layout: Layout) -> float:
        return max(self._workshop.inside(g.kind.configuration, g.devices) for g in layout.groups)

    def _rough(self, layout: Layout, family: Family) -> float:
        cards = self._cards(layout, whole=family.whole)
        n = sum(card.nodes * card.tasks for card in cards)
        inside = max(card.inside for card in cards)
        if family.sync is Sync.RING:
            over = 2 * (n - 1) / n / self._workshop.rack() if len(layout.racks) > 1 else 0.0
            return max(inside, _ring(cards, n) if layout.nodes > 1 else 0.0, over)
        if family.sync is Sync.HIERARCHICAL:
            return inside + _ring(cards, layout.nodes)
        least = max(1 / card.port for card in cards)
        if family.apart:
            least = max(least, *(card.tasks / card.bandwidth for card in cards))
        return (inside if family.whole else 0.0) + least

    def _owners(self, layout: Layout, family: Family) -> list[Owners]:
        """What could own parameters: by rack, all free cards as one or each card of the layout."""
        n = layout.nodes if family.whole else layout.devices
        behind = {
            rack: sum(count * (1 if family.whole else group.devices) for group, count in taken)
            for rack, taken in layout.racks.items()
        }
        if family.apart:
            owners: dict[Rack, list[tuple[list[Edge], int]]] = {
                rack: [([(0.0, n / cards)], 1)]
                for rack, cards in self._free_cards(layout).items()
                if cards > 0
            }
        else:
            owners = {rack: self._beside(taken, family, n) for rack, taken in layout.racks.items()}
        several = len(set(behind) | set(owners)) > 1
        uplink = self._workshop.rack()
        return [
            Owners([edge(behind.get(rack, 0), n, uplink)] if several else [], each)
            for rack, each in owners.items()
        ]

    def _beside(
        self, taken: Sequence[tuple[Group, int]], family: Family, n: int
    ) -> list[tuple[list[Edge], int]]:
        found = []
        for group, count in taken:
            card = self._workshop.card(group.kind.configuration)
            found.append(([edge(1 if family.whole else group.devices, n, card)], count))
        return found

    def _cards(self, layout: Layout, *, whole: bool) -> list[Card]:
        return [
            Card(
                group.nodes,
                1 if whole else group.devices,
                self._workshop.card(group.kind.configuration),
                self._workshop.port(group.kind.configuration),
                self._workshop.inside(group.kind.configuration, group.devices),
            )
            for group in layout.groups
        ]

    def _free_cards(self, layout: Layout) -> dict[Rack, float]:
        """Bytes/s of the cards that servers apart from the layout could use, by rack."""
        free = dict(self._servers)
        for rack, taken in layout.racks.items():
            for group, count in taken:
                free[rack] = free.get(rack, 0.0) - count * self._workshop.card(group.kind.configuration)
        return free


def _ring(cards: Sequence[Card], n: int) -> float:
    slowest = min(card.bandwidth for card in cards)
    return 2 * (n - 1) / n / slowest if n > 1 else 0.0
