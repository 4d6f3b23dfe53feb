"""The price of a place: the devices' worth of steps that neighbours there would lose to each other.

A job is slowed by its worst neighbour, not by the sum (Xiao, section 3.2). A newcomer pays for what
it loses, and for what others lose beyond what they already lose to somebody else:

    price = k e(own) + sum over tenants of k' max(0, e'(newcomer) - e'(worst so far))       [devices]

with k, k' the devices, e, e' the part by which steps get longer (`model/slowdowns.py`).
"""

from collections.abc import Iterator

from muster.model.slowdowns import Slowdowns, common_on
from muster.model.topology import ConfigurationSet
from muster.place.neighbourhood import Neighbourhood, Tenants


class Prices:
    """Prices of places for any job; each node's are kept until its tenants change."""

    def __init__(self, neighbourhood: Neighbourhood, slowdowns: Slowdowns) -> None:
        self.slowdowns = slowdowns
        self._neighbourhood = neighbourhood
        self._kept: dict[tuple[str, str, int], tuple[int, float]] = {}

    def of(self, job: int, node: str, bits: int) -> float:
        """Return the price of these free devices for a job."""
        tenants = self._neighbourhood.on(node)
        if not tenants:
            return 0.0
        key = (self.slowdowns.kinds.get(job, ""), node, bits)
        changes = self._neighbourhood.changes[node]
        known = self._kept.get(key)
        if known is None or known[0] != changes:
            known = self._kept[key] = changes, self._work_out(job, node, bits, tenants)
        return known[1]

    def _work_out(self, job: int, node: str, bits: int, tenants: Tenants) -> float:
        cluster = self._neighbourhood.cluster
        kind = cluster.configuration_of(cluster.node(node))
        tenants = {other: theirs for other, theirs in tenants.items() if other != job}
        own, caused = 0.0, 0.0
        for other, theirs in tenants.items():
            common = common_on(kind, bits, theirs)
            own = max(own, self.slowdowns.beside(common, job, other))
            more = self.slowdowns.beside(common, other, job) - self._worst(kind, other, tenants)
            caused += self._neighbourhood.devices(other) * max(0.0, more)
        return bits.bit_count() * own + caused

    def _worst(self, kind: ConfigurationSet, job: int, tenants: Tenants) -> float:
        """Return by how much a tenant's steps are longer already."""
        return max(self._between(kind, job, tenants), default=0.0)

    def _between(self, kind: ConfigurationSet, job: int, tenants: Tenants) -> Iterator[float]:
        for other, theirs in tenants.items():
            if other != job:
                common = common_on(kind, tenants[job], theirs)
                yield self.slowdowns.beside(common, job, other)
