"""What links have carried, over all jobs, as tasks report it.

A task reports what went to each other host, and the s in which it was under way (`runtime/comm/hops`).
Each report counts for the hop between the two nodes, from which single slow nodes are found, and,
unless one of them is such a node, for the class of the widest link on the way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite

from muster.model.cluster import Cluster, Node
from muster.perf.history.hops import ALIKE, Hops, HopSeen, NodeLink, odd
from muster.perf.history.links import KEPT, Carried, LinkHistory
from muster.perf.history.shared_ends import HopRate, Sent, SharedEnds
from muster.perf.wires import LinkClass, Wire
from muster.wire.tasks.messages import Transferred

APART = 1.0
"""Least s between two observations of a class of links of one kind, large or small messages: those of
one step say the same, and only 200 are kept."""

AGED = 600.0
"""s after which figures without new reports are made again, and hops are noted again: both change
over hours."""

SMALL = 1.0
"""Bytes of a message that tells the latency."""


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

    def __init__(self, cluster: Cluster | None = None) -> None:
        self.cluster = cluster
        """Whose links they are; None: no node's own link is known."""
        self._history = LinkHistory()
        self._new: list[Carried] = []
        self._spots: dict[int, Mapping[str, Spot]] = {}
        self._latest: dict[tuple[LinkClass, bool], float] = {}
        self._ends: dict[int, tuple[int, SharedEnds]] = {}
        """What is reported in the formation that each job has now."""
        self._hops = Hops()
        self._noted: dict[tuple[str, str], HopSeen] = {}
        self._nodes: dict[str, NodeLink] = {}
        self._figured: tuple[int, float, Cluster | None] = (0, 0.0, None)
        """Reports, time and cluster that `_nodes` was made from."""

    def place(self, job: int, spots: Mapping[str, Spot]) -> None:
        """Set where the tasks of a job are; empty for a job without tasks."""
        if spots:
            self._spots[job] = spots
        else:
            self._spots.pop(job, None)
            self._ends.pop(job, None)

    def spots(self, job: int) -> Mapping[str, Spot]:
        """Return where the tasks of a job are."""
        return self._spots.get(job, {})

    def hear(self, job: int, transferred: Transferred, now: float) -> list[Carried | HopSeen]:
        """Take in a report; return what the next daemon should know of it."""
        spots = self._spots.get(job, {})
        here, there = spots.get(transferred.task), spots.get(transferred.link)
        if here is None or there is None or not transferred.latency > 0:
            return []  # nobody knows where, or its time includes waiting: of an older version
        link = _crossed(here.node, there.node)
        seen = [Carried(link, SMALL, transferred.latency, now)]
        found: list[Carried | HopSeen] = []
        hop = self._rate(job, transferred, here.node.name, there.node.name)
        if hop is not None:
            seen.append(Carried(link, float(transferred.bytes), transferred.bytes / hop.rate, now))
            if here.node.name != there.node.name:
                ends = here.node.name, there.node.name
                found += self._hear_hop(HopSeen(*ends, hop.rate, now, hop.shared))
        if self._is_usual(here.node, there.node):
            due = [carried for carried in seen if self._is_due(carried)]
            for carried in due:
                self.add(carried)
            found += due
        return found

    def add(self, carried: Carried) -> None:
        """Add an observation of a class, of this or an earlier daemon."""
        key = carried.link, carried.bytes <= SMALL
        self._latest[key] = max(carried.at, self._latest.get(key, carried.at))
        self._new.append(carried)
        if len(self._new) > KEPT:
            self._sort_in()

    def add_hop(self, hop: HopSeen) -> None:
        """Add an observation of a hop, of this or an earlier daemon."""
        self._hops.add(hop)

    def nodes(self, now: float) -> Mapping[str, NodeLink]:
        """Return what is known of the links of nodes that have shown something."""
        version, when, cluster = self._figured
        changed = version != self._hops.version or cluster is not self.cluster
        if self.cluster is not None and (changed or now > when + AGED):
            self._figured = self._hops.version, now, self.cluster
            self._nodes = self._hops.nodes(self.cluster, now)
            own = odd(self._nodes, self.cluster)
            if own != self._history.nodes:
                self._history = replace(self._history, nodes=own)
        return self._nodes

    def history(self, now: float) -> LinkHistory:
        """Return all observations of classes, and the nodes that differ from theirs; the same object
        as long as nothing has changed."""
        self.nodes(now)
        self._sort_in()
        return self._history

    def _rate(self, job: int, said: Transferred, here: str, there: str) -> HopRate | None:
        """Return what a hop carries, with what else its ends carried; None: nothing to tell."""
        if not (said.bytes > 0 and said.seconds > 0 and isfinite(said.bytes / said.seconds)):
            return None
        formation, ends = self._ends.get(job, (-1, SharedEnds()))
        if formation != said.formation:
            ends = SharedEnds()
            self._ends[job] = said.formation, ends
        return ends.rate(said.task, here, there, Sent(said.bytes, said.seconds))

    def _hear_hop(self, hop: HopSeen) -> list[HopSeen]:
        """Take in a hop; return it as it is believed now, if that should be noted."""
        self.add_hop(hop)
        believed = hop._replace(rate=self._hops.rate(hop.source, hop.target) or hop.rate)
        noted = self._noted.get((hop.source, hop.target))
        if noted is not None and hop.at < noted.at + AGED and _is_near(believed.rate, noted.rate):
            return []
        self._noted[hop.source, hop.target] = believed
        return [believed]

    def _is_usual(self, here: Node, there: Node) -> bool:
        """Whether a hop between two nodes tells of its class: neither link is known to be odd. Before
        anything is known of them, either might be."""
        own = self._history.nodes
        if self.cluster is None or here.name == there.name:
            return True
        known = here.name in self._nodes and there.name in self._nodes
        return known and here.name not in own and there.name not in own

    def _sort_in(self) -> None:
        if self._new:
            self._history = self._history.and_also(self._new)
            self._new = []

    def _is_due(self, carried: Carried) -> bool:
        key = carried.link, carried.bytes <= SMALL
        return carried.at >= self._latest.get(key, -APART) + APART


def _is_near(rate: float, other: float) -> bool:
    return ALIKE <= rate / other <= 1 / ALIKE


def _crossed(here: Node, there: Node) -> LinkClass:
    """Return the widest class of link between two nodes, or inside one."""
    if here.domain != there.domain:
        return LinkClass(Wire.DOMAIN)
    if here.rack != there.rack:
        return LinkClass(Wire.RACK)
    wire = Wire.HOST if here.name == there.name else Wire.NIC
    return LinkClass(wire, here.configuration)
