"""Who is where: the jobs on each node, and what any two of them share."""

from collections.abc import Iterable, Iterator, Mapping

from muster.model.cluster import Cluster
from muster.model.placement import Placement, Slot
from muster.model.slowdowns import Common, common_on
from muster.model.topology import ConfigurationSet

Tenants = Mapping[int, int]
"""Jobs on one node, with the bits of their devices there."""

_NOBODY: Tenants = {}


class Neighbourhood:
    """The jobs of a cluster by node."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._on: dict[str, dict[int, int]] = {}
        self._of: dict[int, dict[str, int]] = {}
        self.changes: dict[str, int] = {}
        """How often each node's tenants have changed."""

    def put(self, job: int, placement: Placement | None) -> None:
        """Set where a job is, None for nowhere."""
        before = self._of.pop(job, {})
        for node in before:
            del self._on[node][job]
        after = placement.bits() if placement is not None else {}
        for node, bits in after.items():
            self._on.setdefault(node, {})[job] = bits
        if after:
            self._of[job] = after
        self._changed({**before, **after})

    def add(self, job: int, slots: Iterable[Slot]) -> None:
        """Add tasks to a job."""
        more = Placement(tuple(slots)).bits()
        mine = self._of[job] = {**self.of(job)}
        for node, bits in more.items():
            mine[node] = self._on.setdefault(node, {})[job] = mine.get(node, 0) | bits
        self._changed(more)

    def _changed(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self.changes[node] = self.changes.get(node, 0) + 1

    def on(self, node: str) -> Tenants:
        """Return the jobs on a node."""
        return self._on.get(node, _NOBODY)

    def of(self, job: int) -> Mapping[str, int]:
        """Return a job's devices by node."""
        return self._of.get(job, {})

    def devices(self, job: int) -> int:
        """Return how many devices a job holds."""
        return sum(bits.bit_count() for bits in self.of(job).values())

    def beside(self, job: int) -> dict[int, tuple[Common, ...]]:
        """Return the neighbours of a job, with everything that it shares with each."""
        found: dict[int, set[Common]] = {}
        mine = self.of(job)
        for node, bits in mine.items():
            for other, theirs in self.on(node).items():
                if other != job:
                    found.setdefault(other, set()).add(self.common(node, bits, theirs))
        for other, shared in found.items():
            if len(mine) > 1 and len(self._of[other]) > 1:
                shared.add(Common.NETWORK)
        return {other: tuple(sorted(shared)) for other, shared in found.items()}

    def common(self, node: str, mine: int, theirs: int) -> Common:
        """Return what devices of two jobs on one node share."""
        return common_on(self.kind_of(node), mine, theirs)

    def kind_of(self, node: str) -> ConfigurationSet:
        """Return what a node is like."""
        return self.cluster.configuration_of(self.cluster.node(node))

    def crowded(self) -> Iterator[str]:
        """Yield the nodes with several jobs."""
        return (node for node, tenants in self._on.items() if len(tenants) > 1)
