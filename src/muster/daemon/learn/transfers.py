"""What links have carried, over all jobs, as tasks report it.

A task reports bytes and s for each peer and step, or for the whole ring. Only the class of the slowest
kind of link on the way is known; the s include waiting for a slow peer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from muster.model.cluster import Cluster, Node
from muster.perf.history.links import KEPT, Carried, LinkHistory
from muster.perf.wires import LinkClass, Wire
from muster.wire.messages import Transferred

APART = 1.0
"""Least s between two observations of a class: the transfers of one step say the same, and only 200 are
kept."""

CPU = "cpu"
"""The type of virtual devices, whose tasks communicate through the node's memory."""

RING = "ring"
"""The name of a collective's link in `Transferred`."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a task is."""

    node: Node
    device_type: str


def spots_of(cluster: Cluster, nodes: Mapping[str, str]) -> dict[str, Spot]:
    """Return where tasks are, given the name of each one's node."""
    spots = {}
    for task, name in nodes.items():
        node = cluster.node(name)
        spots[task] = Spot(node, cluster.configuration_of(node).device_type)
    return spots


class Transfers:
    """The observations of all jobs."""

    def __init__(self) -> None:
        self._history = LinkHistory()
        self._new: list[Carried] = []
        self._spots: dict[int, Mapping[str, Spot]] = {}
        self._latest: dict[LinkClass, float] = {}

    def place(self, job: int, spots: Mapping[str, Spot]) -> None:
        """Set where the tasks of a job are; empty for a job without tasks."""
        if spots:
            self._spots[job] = spots
        else:
            self._spots.pop(job, None)

    def spots(self, job: int) -> Mapping[str, Spot]:
        """Return where the tasks of a job are."""
        return self._spots.get(job, {})

    def hear(self, job: int, transferred: Transferred, now: float) -> Carried | None:
        """Take in a report; return what was learnt from it, if anything."""
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
        self.add(carried)
        return carried

    def add(self, carried: Carried) -> None:
        """Add an observation of this or an earlier daemon."""
        self._latest[carried.link] = max(carried.at, self._latest.get(carried.link, carried.at))
        self._new.append(carried)
        if len(self._new) > KEPT:
            self.history()

    def history(self) -> LinkHistory:
        """Return all observations."""
        if self._new:
            self._history = self._history.and_also(self._new)
            self._new = []
        return self._history

    def _crossed(self, job: int, transferred: Transferred) -> LinkClass | None:
        """Return the widest class of link between two tasks, or within a ring; None if unknown."""
        spots = self._spots.get(job, {})
        here = spots.get(transferred.task)
        if transferred.link == RING:
            ends = list(spots.values())
        else:
            ends = [spots[name] for name in (transferred.task, transferred.link) if name in spots]
        if here is None or len(ends) < 2:
            return None
        if len({end.node.domain for end in ends}) > 1:
            return LinkClass(Wire.DOMAIN)
        if len({end.node.rack for end in ends}) > 1:
            return LinkClass(Wire.RACK)
        if len({end.node.name for end in ends}) > 1:
            return LinkClass(Wire.NIC, here.node.configuration)
        # A ring of GPUs uses their own links, which it does not report.
        through_memory = transferred.link != RING or here.device_type == CPU
        return LinkClass(Wire.HOST, here.node.configuration) if through_memory else None
