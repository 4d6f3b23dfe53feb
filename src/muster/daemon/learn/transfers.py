"""What links have carried, over all jobs, from what tasks tell of their transfers.

A task tells bytes and seconds for each peer and step, or for the whole ring. Only the class of the
slowest kind of link on the way is known; seconds include waiting for a slow peer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from muster.model.cluster import Cluster, Node
from muster.perf.history.links import KEPT, Carried, LinkHistory
from muster.perf.wires import LinkClass, Wire
from muster.wire.messages import Transferred

APART = 1.0
"""s between two observations of a class that are kept: a step's many transfers tell the same, and 200
are kept in all."""

CPU = "cpu"
"""The type of virtual devices: what their tasks exchange goes through the node's memory."""

RING = "ring"
"""The link of a collective, in `Transferred`."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a task is: its node, and what that is like."""

    node: str
    configuration: str
    rack: str
    domain: str
    device_type: str


def spots_of(cluster: Cluster, nodes: Mapping[str, str]) -> dict[str, Spot]:
    """Where tasks are, by their nodes' names."""
    return {task: _spot(cluster, cluster.node(name)) for task, name in nodes.items()}


def _spot(cluster: Cluster, node: Node) -> Spot:
    device_type = cluster.configuration_of(node).device_type
    return Spot(node.name, node.configuration, node.rack, node.domain, device_type)


class Transfers:
    """Observations of all jobs."""

    def __init__(self) -> None:
        self._history = LinkHistory()
        self._new: list[Carried] = []
        self._spots: dict[int, Mapping[str, Spot]] = {}
        self._latest: dict[LinkClass, float] = {}

    def place(self, job: int, spots: Mapping[str, Spot]) -> None:
        """Where the tasks of a job are from now on; nowhere when it has none."""
        self._spots[job] = spots
        if not spots:
            del self._spots[job]

    def hear(self, job: int, transferred: Transferred, now: float) -> Carried | None:
        """A task has told of a transfer; what was learnt of it, if anything."""
        link = self._crossed(job, transferred)
        fine = isfinite(transferred.seconds) and transferred.seconds > 0 and transferred.bytes > 0
        if link is None or not fine or now < self._latest.get(link, -APART) + APART:
            return None
        size = float(transferred.bytes)
        if transferred.link == RING:
            # Each member of a ring of k sends 2 (k - 1) / k of what is summed.
            members = len(self._spots[job])
            size *= 2 * (members - 1) / members
        carried = Carried(link, size, transferred.seconds, now)
        self.add([carried])
        return carried

    def add(self, carried: Iterable[Carried]) -> None:
        """Observations, also of an earlier daemon."""
        for one in carried:
            self._latest[one.link] = max(one.at, self._latest.get(one.link, one.at))
            self._new.append(one)
        if len(self._new) > KEPT:
            self.history()

    def history(self) -> LinkHistory:
        """All that is remembered."""
        if self._new:
            self._history = self._history.and_also(self._new)
            self._new = []
        return self._history

    def _crossed(self, job: int, transferred: Transferred) -> LinkClass | None:
        """The widest kind of link between the two, or among all of a ring; None: not known."""
        spots = self._spots.get(job, {})
        here = spots.get(transferred.task)
        if transferred.link == RING:
            ends = list(spots.values())
        else:
            ends = [spots[name] for name in (transferred.task, transferred.link) if name in spots]
        if here is None or len(ends) < 2:
            return None
        if len({end.domain for end in ends}) > 1:
            return LinkClass(Wire.DOMAIN)
        if len({end.rack for end in ends}) > 1:
            return LinkClass(Wire.RACK)
        if len({end.node for end in ends}) > 1:
            return LinkClass(Wire.NIC, here.configuration)
        # A ring of GPUs goes over their own links, of which it does not tell.
        through_memory = transferred.link != RING or here.device_type == CPU
        return LinkClass(Wire.HOST, here.configuration) if through_memory else None
