"""The price of a place: the devices' worth of steps that neighbours there would lose to each other.

A job is slowed by its worst neighbour, not by the sum (Xiao, section 3.2). A newcomer pays for what
it loses, and for what others lose beyond what they already lose to somebody else:

    price = k e(own) + sum over tenants of k' max(0, e'(newcomer) - e'(worst so far))       [devices]

with k, k' the devices, e, e' the part by which steps get longer (`model/slowdowns.py`).
"""

from collections.abc import Iterator, Mapping

from muster.model.slowdowns import Common, Slowdowns, common_on
from muster.model.topology import ConfigurationSet
from muster.place.neighbourhood import Neighbourhood, Tenants

KEPT = 1 << 16
"""Most prices kept."""


class Prices:
    """Prices of places for any job; each node's are kept until its tenants change."""

    def __init__(self, neighbourhood: Neighbourhood, slowdowns: Slowdowns) -> None:
        self.slowdowns = slowdowns
        self._neighbourhood = neighbourhood
        self._kept: dict[tuple[str | int, str, int], tuple[int, float]] = {}
        self._lost: dict[str, tuple[int, float]] = {}
        self._suffering: dict[str, tuple[int, list[tuple[int, int, int, float]]]] = {}
        self._common: dict[tuple[str, int, int], Common] = {}
        """What devices of a configuration set share: there are few such pairs, and they are asked for
        more often than anything else here."""

    def follow(self, slowdowns: Slowdowns) -> "Prices":
        """Return prices by what is believed now: these, if it is the same of all kinds."""
        old = self.slowdowns
        if slowdowns.typical is old.typical and slowdowns.pairs is old.pairs:
            self.slowdowns = slowdowns
            return self
        return Prices(self._neighbourhood, slowdowns)

    def of(self, job: int, node: str, bits: int) -> float:
        """Return the price of these free devices for a job."""
        tenants = self._neighbourhood.on(node)
        if not tenants:
            return 0.0
        key = (job if job in tenants else self.slowdowns.kinds.get(job, ""), node, bits)
        changes = self._neighbourhood.changes[node]
        known = self._kept.get(key)
        if known is None or known[0] != changes:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            known = self._kept[key] = changes, self.over(job, {node: bits})
        return known[1]

    def over(self, job: int, places: Mapping[str, int]) -> float:
        """Return the price of free devices on several nodes: the worst neighbour slows all of them."""
        worst = max(self.worst(job, node, bits)[0] for node, bits in places.items())
        own = worst * sum(bits.bit_count() for bits in places.values())
        return own + sum(self._caused(job, node, bits) for node, bits in places.items())

    def worst(self, job: int, node: str, bits: int) -> tuple[float, int]:
        """Return how much longer a job's steps get on these devices, and beside whom; 0: nobody."""
        kind = self._neighbourhood.kind_of(node)
        found = (
            (self.slowdowns.beside(self._common_on(kind, bits, theirs), job, other), other)
            for other, theirs in self._neighbourhood.on(node).items()
            if other != job
        )
        return max(found, default=(0.0, 0))

    def lost(self, node: str) -> float:
        """Return the devices' worth of steps that the tenants of a node lose to each other."""
        tenants, changes = self._neighbourhood.on(node), self._neighbourhood.changes.get(node, 0)
        if len(tenants) < 2:
            return 0.0
        known = self._lost.get(node)
        if known is None or known[0] != changes:
            kind = self._neighbourhood.kind_of(node)
            lost = (devices * worst for _, _, devices, worst in self._suffering_on(node, kind, tenants))
            known = self._lost[node] = changes, sum(lost)
        return known[1]

    def _caused(self, job: int, node: str, bits: int) -> float:
        """Return what the tenants of a node would lose to a job beyond what they lose already."""
        kind, caused = self._neighbourhood.kind_of(node), 0.0
        tenants = self._neighbourhood.on(node)
        if job in tenants:
            others = {other: theirs for other, theirs in tenants.items() if other != job}
            suffering = self._suffer(kind, others)
        else:
            suffering = self._suffering_on(node, kind, tenants)
        for other, theirs, devices, worst in suffering:
            common = self._common_on(kind, bits, theirs)
            more = self.slowdowns.beside(common, other, job) - worst
            caused += devices * max(0.0, more)
        return caused

    def _suffering_on(
        self, node: str, kind: ConfigurationSet, tenants: Tenants
    ) -> list[tuple[int, int, int, float]]:
        """Return the same for all tenants of a node, kept until they change: every newcomer asks."""
        changes = self._neighbourhood.changes[node] if tenants else 0
        known = self._suffering.get(node)
        if known is None or known[0] != changes:
            known = self._suffering[node] = changes, self._suffer(kind, tenants)
        return known[1]

    def _suffer(self, kind: ConfigurationSet, tenants: Tenants) -> list[tuple[int, int, int, float]]:
        """Return each tenant with its devices here, how many it has, and by how much its steps are
        longer already."""
        return [
            (each, bits, self._neighbourhood.devices(each), self._worst(kind, each, tenants))
            for each, bits in tenants.items()
        ]

    def _worst(self, kind: ConfigurationSet, job: int, tenants: Tenants) -> float:
        """Return by how much a tenant's steps are longer already."""
        return max(self._between(kind, job, tenants), default=0.0)

    def _between(self, kind: ConfigurationSet, job: int, tenants: Tenants) -> Iterator[float]:
        for other, theirs in tenants.items():
            if other != job:
                common = self._common_on(kind, tenants[job], theirs)
                yield self.slowdowns.beside(common, job, other)

    def _common_on(self, kind: ConfigurationSet, bits: int, theirs: int) -> Common:
        key = (kind.name, bits, theirs)
        known = self._common.get(key)
        if known is None:
            known = self._common[key] = common_on(kind, bits, theirs)
        return known
