"""Lower bounds on the step of a family of plans on a layout: they prune the search.

Computing: all devices busy with balanced parts. Transfers: the least that cards, ports and racks must
carry, in s per byte of gradients. n tasks synchronise, k of them behind an edge of B bytes/s:

    ring           2 (n-1)/n / B
    owners         the level of water-filling over cards and racks, see `owners`
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from muster.model.plan import Sync
from muster.perf.estimate import Unknown, WhyUnknown
from muster.perf.overlap import FORWARD, Pieces
from muster.planner.candidates import Family, Workshop
from muster.planner.layout import Layout, NodeGroup, Rack
from muster.split.batch import Bearer, finish_alike
from muster.split.owners import Edge, Owners, edge, level


@dataclass(frozen=True, slots=True)
class GroupLinks:
    """Equal nodes of a layout: how many, tasks on each, bytes/s of card and port, s/byte inside."""

    nodes: int
    tasks: int
    bandwidth: float
    port: float
    inside: float


class StepBounds:
    """Least step times for one model."""

    def __init__(self, workshop: Workshop, pieces: Pieces) -> None:
        self._workshop = workshop
        self._rates = workshop.rates
        self._pieces = pieces
        self._servers = workshop.server_cards()
        self._known: dict[tuple[str, int, int, bool], GroupLinks] = {}

    def compute(self, layout: Layout, batch: int, *, updates: bool) -> float | Unknown:
        """Return the seconds of computing with balanced parts, or why it is impossible."""
        bearers = self._bearers(layout, updates=updates)
        if isinstance(bearers, Unknown):
            return bearers
        time = finish_alike(bearers, batch)
        if time == inf:
            return Unknown(WhyUnknown.OUT_OF_MEMORY, self._workshop.too_large(batch, layout.devices))
        return time

    def superfluous(self, layout: Layout, batch: int, time: float, least: int) -> bool:
        """Return whether a node could be dropped without longer computing: the smaller layout is as
        good, and has less to synchronise."""
        bearers = self._bearers(layout, updates=True)
        if isinstance(bearers, Unknown):
            return False
        done = [bearer.samples_by(time) for bearer in bearers]
        spare = sum(n * b.devices for n, b in zip(done, bearers, strict=True)) - batch
        return any(
            spare >= n * group.devices and layout.devices - group.devices >= max(1, least)
            for n, group in zip(done, layout.groups, strict=True)
        )

    def _bearers(self, layout: Layout, *, updates: bool) -> list[Bearer] | Unknown:
        found = []
        for group in layout.groups:
            devices = group.nodes * group.devices
            bearer = self._workshop.bearer(group.kind.configuration, devices, updates=updates)
            if isinstance(bearer, Unknown):
                return bearer
            found.append(bearer)
        return found

    def least(self, layout: Layout, compute: float) -> float:
        """Return the least step of any plan on a layout, s."""
        return self._step(compute, self._any(layout))

    def rough(self, layout: Layout, family: Family, compute: float) -> float:
        """Return the least step of a family on a layout for any owners, s."""
        return self._step(compute, *self._parts(layout, family, 0.0), self._wait(layout, family))

    def fine(self, layout: Layout, family: Family, compute: float) -> float:
        """Return the same with parameters placed best, s."""
        filled = 0.0
        if family.sync in (Sync.SHARDED, Sync.DEDICATED) and (layout.nodes > 1 or family.apart):
            filled = level(self._owners(layout, family))
        return self._step(compute, *self._parts(layout, family, filled), self._wait(layout, family))

    def _step(self, compute: float, over: float, inside: float = 0.0, per_piece: float = 0.0) -> float:
        """Return the least step with these s/byte over the nodes, and inside them as another stage."""
        forward = FORWARD * compute
        pace, through = max(over, inside), min(over, inside)
        return forward + self._pieces.done(compute - forward, pace, per_piece, through)

    def _wait(self, layout: Layout, family: Family) -> float:
        """Return the least latency of a piece, s: consecutive messages over the nearest links."""
        kinds = [group.kind.configuration for group in layout.groups]
        far = min(self._rates.wiring.card_latency(kind) for kind in kinds) if layout.nodes > 1 else 0.0
        if family.sync is Sync.RING:
            return 2 * (layout.devices - 1) * far
        if family.sync is Sync.HIERARCHICAL:
            return 2 * (layout.nodes - 1) * far
        near = min(self._rates.wiring.host_latency(kind) for kind in kinds)
        return 2 * (near + far)

    def _any(self, layout: Layout) -> float:
        """Return the least of a ring, of whole nodes that sum inside first, and of single devices."""
        if layout.nodes == 1:
            return 0.0
        cards = self._cards(layout, whole=False)
        inside = max(card.inside for card in cards)
        once = 1 / min(card.bandwidth for card in cards)
        each = max(card.tasks / card.bandwidth for card in cards)
        return min(max(inside, _ring(cards, layout.devices)), max(inside, once), each)

    def _parts(self, layout: Layout, family: Family, filled: float) -> tuple[float, float]:
        """Return the least s/byte over the nodes, and inside them if that is another stage."""
        cards = self._cards(layout, whole=family.whole)
        n = sum(card.nodes * card.tasks for card in cards)
        inside = max(card.inside for card in cards)
        if family.sync is Sync.RING:
            over = 2 * (n - 1) / n / self._rates.uplink() if len(layout.racks) > 1 else 0.0
            return max(inside, _ring(cards, n) if layout.nodes > 1 else 0.0, over), 0.0
        if family.sync is Sync.HIERARCHICAL:
            return _ring(cards, layout.nodes), inside
        least = max(filled, *(1 / card.port for card in cards))
        if family.apart:
            least = max(least, *(card.tasks / card.bandwidth for card in cards))
        return least, inside if family.whole else 0.0

    def _owners(self, layout: Layout, family: Family) -> list[Owners]:
        """Return what could own parameters by rack: all free cards as one, or the layout's cards."""
        n = layout.nodes if family.whole else layout.devices
        spread = layout.spread(dealt=family.dealt)
        behind = {
            rack: sum(count * (1 if family.whole else group.devices) for group, count in taken)
            for rack, taken in spread.items()
        }
        if family.apart:
            owners: dict[Rack, list[tuple[list[Edge], int]]] = {
                rack: [([(0.0, n / cards)], 1)]
                for rack, cards in self._free_cards(layout, family).items()
                if cards > 0
            }
        else:
            owners = {rack: self._beside(each, family, n) for rack, each in spread.items()}
        several = len(set(behind) | set(owners)) > 1
        uplink = self._rates.uplink()
        return [
            Owners([edge(behind.get(rack, 0), n, uplink)] if several else [], each)
            for rack, each in owners.items()
        ]

    def _beside(
        self, taken: Sequence[tuple[NodeGroup, int]], family: Family, n: int
    ) -> list[tuple[list[Edge], int]]:
        found = []
        for group, count in taken:
            card = self._rates.card(group.kind.configuration)
            found.append(([edge(1 if family.whole else group.devices, n, card)], count))
        return found

    def _cards(self, layout: Layout, *, whole: bool) -> list[GroupLinks]:
        return [self._card(group, whole=whole) for group in layout.groups]

    def _card(self, group: NodeGroup, *, whole: bool) -> GroupLinks:
        kind = group.kind.configuration
        key = (kind, group.nodes, group.devices, whole)
        if key not in self._known:
            tasks = 1 if whole else group.devices
            rates = self._rates
            inside = rates.inside(kind, group.devices)
            self._known[key] = GroupLinks(
                group.nodes, tasks, rates.card(kind), rates.port(kind), inside
            )
        return self._known[key]

    def _free_cards(self, layout: Layout, family: Family) -> dict[Rack, float]:
        """Return bytes/s of the cards that servers apart from the layout could use, by rack."""
        free = dict(self._servers)
        for rack, taken in layout.spread(dealt=family.dealt).items():
            for group, count in taken:
                free[rack] = free.get(rack, 0.0) - count * self._rates.card(group.kind.configuration)
        return free


def _ring(cards: Sequence[GroupLinks], n: int) -> float:
    slowest = min(card.bandwidth for card in cards)
    return 2 * (n - 1) / n / slowest if n > 1 else 0.0
