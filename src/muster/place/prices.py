"""The price of a place: the devices' worth of steps that neighbours there would lose to each other.

A job is slowed by its worst neighbour, not by the sum (Xiao, section 3.2). A newcomer pays for what
it loses, and for what others lose beyond what they already lose to somebody else:

    price = k e(own) + sum over tenants of k' max(0, e'(newcomer) - e'(worst so far))       [devices]

with k, k' the devices, e, e' the part by which steps get longer (`model/slowdowns.py`).
"""

from collections.abc import Iterator, Mapping

from muster.model.slowdowns import Slowdowns, common_on
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
            (self.slowdowns.beside(common_on(kind, bits, theirs), job, other), other)
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
            lost = (
                self._neighbourhood.devices(each) * self._worst(kind, each, tenants) for each in tenants
            )
            known = self._lost[node] = changes, sum(lost)
        return known[1]

    def _caused(self, job: int, node: str, bits: int) -> float:
        """Return what the tenants of a node would lose to a job beyond what they lose already."""
        kind, caused = self._neighbourhood.kind_of(node), 0.0
        tenants = {
            other: theirs for other, theirs in self._neighbourhood.on(node).items() if other != job
        }
        for other, theirs in tenants.items():
            common = common_on(kind, bits, theirs)
            more = self.slowdowns.beside(common, other, job) - self._worst(kind, other, tenants)
            caused += self._neighbourhood.devices(other) * max(0.0, more)
        return caused

    def _worst(self, kind: ConfigurationSet, job: int, tenants: Tenants) -> float:
        """Return by how much a tenant's steps are longer already."""
        return max(self._between(kind, job, tenants), default=0.0)

    def _between(self, kind: ConfigurationSet, job: int, tenants: Tenants) -> Iterator[float]:
        for other, theirs in tenants.items():
            if other != job:
                common = common_on(kind, tenants[job], theirs)
                yield self.slowdowns.beside(common, job, other)
