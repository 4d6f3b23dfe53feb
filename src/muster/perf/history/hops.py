"""Which node's link is slow: hops between nodes, and what they say of each end.

A hop carries what the slower of its two ends lets through, so a slow hop does not tell which end it
was. But a link is at least as fast as the fastest hop over it: a node that is fast with anybody is
fast, one that is slow with everybody is slow. A slow hop whose other end (or the level of the network
between them) is as slow with others says nothing of this end. Nor does a hop into a node that at the
same time sends over a slower one: it reads late, and the kernel acknowledges late what is not read.

A hop's rate is the median of its latest reports: lies, and transfers beside other load, have no effect
while they are fewer than half, and none after `KEPT` / 2 true ones.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from statistics import median, median_high
from typing import NamedTuple

from muster.model.cluster import Cluster, Node
from muster.model.topology import Level
from muster.perf.history.links import HALF_LIFE
from muster.perf.wires import LinkClass, Wire, prior

KEPT = 9
"""Reports kept of each hop."""
FRESH = 600.0
"""s: within this time of its latest report, what a node has shown counts as the present."""
ALIKE = 0.8
"""Rates within this factor are the same: reports of one link differ by up to a tenth."""
RATED = 2
"""Measured nodes against which the cluster file's claim for a kind of nodes counts as many."""
ODD = 0.7
"""A link that is slower than this part of its kind's, or faster by as much, is the node's own."""


class HopSeen(NamedTuple):
    """A report: bytes/s from one node to another, and when in s."""

    source: str
    target: str
    rate: float
    at: float
    shared: bool = False
    """Whether its ends carried others at the same time: then all are read as they come, none late."""


@dataclass(frozen=True, slots=True)
class NodeLink:
    """What is known of one node's link."""

    rated: float
    """Bytes/s by the cluster file."""
    rate: float
    """Bytes/s believed now."""
    reports: int
    at: float
    """When the latest report came, in s."""


class _Way(NamedTuple):
    """What one node has shown with another."""

    rate: float
    at: float
    reports: int
    held_up: bool = False
    """Whether the receiver was busy with a slower hop of its own."""


class Hops:
    """The reports of all jobs; the latest of each hop are kept."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], deque[HopSeen]] = {}
        self.version = 0
        """Grows with each report."""

    def add(self, seen: HopSeen) -> None:
        """Take in a report."""
        self.version += 1
        kept = self._seen.setdefault((seen.source, seen.target), deque(maxlen=KEPT))
        kept.append(seen)

    def rate(self, source: str, target: str) -> float | None:
        """Return the bytes/s that a hop is believed to carry; None if nothing was reported."""
        kept = self._seen.get((source, target))
        return median(seen.rate for seen in kept) if kept else None

    def forget(self, present: Callable[[str], bool]) -> None:
        """Drop the hops of nodes that are gone."""
        gone = [hop for hop in self._seen if not (present(hop[0]) and present(hop[1]))]
        for hop in gone:
            del self._seen[hop]

    def nodes(self, cluster: Cluster, now: float) -> dict[str, NodeLink]:
        """Return what is known of each node that has shown something."""
        ways = self._ways(cluster)
        levels = _levels(cluster, ways)
        kinds: dict[str, list[str]] = {}
        for name in ways:
            kinds.setdefault(cluster.node(name).configuration, []).append(name)
        found: dict[str, NodeLink] = {}
        for kind, names in kinds.items():
            rated = prior(cluster, LinkClass(Wire.NIC, kind)).bandwidth
            shown = {name: _shown(cluster, name, ways, levels) for name in names}
            usual = _usual(rated, (rate for rate, _ in shown.values()))
            for name, (rate, sure) in shown.items():
                believed = rate if sure else max(rate, usual)
                at = max(way.at for way in ways[name].values())
                reports = sum(way.reports for way in ways[name].values())
                rate = _faded(believed, rated, now - at)
                found[name] = NodeLink(rated, rate, reports, at)
        return found

    def _ways(self, cluster: Cluster) -> dict[str, dict[str, _Way]]:
        """Return what each node has shown with each other: the better of the two directions, if both
        are of the present."""
        found: dict[str, dict[str, _Way]] = {}
        hops = {
            hop: _Way(median(seen.rate for seen in kept), kept[-1].at, len(kept))
            for hop, kept in self._seen.items()
            if hop[0] in cluster.index and hop[1] in cluster.index
        }
        onward: dict[str, list[tuple[str, _Way]]] = {}
        for (source, target), way in hops.items():
            onward.setdefault(source, []).append((target, way))
        for (source, target), plain in hops.items():
            after = [other for peer, other in onward.get(target, ()) if peer != source]
            late = not self._seen[source, target][-1].shared
            way = plain._replace(held_up=late and any(_holds_up(plain, other) for other in after))
            back = found.get(source, {}).get(target)
            if back is not None:
                way = _together(way, back)
            found.setdefault(source, {})[target] = way
            found.setdefault(target, {})[source] = way
        return found


def odd(links: Mapping[str, NodeLink], cluster: Cluster) -> dict[str, float]:
    """Return the bytes/s of the nodes whose link differs from others of their kind."""
    kinds: dict[str, list[str]] = {}
    for name in links:
        if name in cluster.index:
            kinds.setdefault(cluster.node(name).configuration, []).append(name)
    found: dict[str, float] = {}
    for names in kinds.values():
        usual = _usual(links[names[0]].rated, (links[name].rate for name in names))
        for name in names:
            if not ODD <= links[name].rate / usual <= 1 / ODD:
                found[name] = links[name].rate
    return found


def _holds_up(way: _Way, onward: _Way) -> bool:
    return onward.rate < ALIKE * way.rate and abs(onward.at - way.at) <= FRESH


def _together(one: _Way, other: _Way) -> _Way:
    late, early = (one, other) if one.at >= other.at else (other, one)
    present = late.at - early.at <= FRESH
    better = max(one, other, key=lambda way: way.rate) if present else late
    return _Way(better.rate, late.at, one.reports + other.reports, better.held_up)


def _shown(
    cluster: Cluster,
    name: str,
    ways: Mapping[str, Mapping[str, _Way]],
    levels: Mapping[Level, float],
) -> tuple[float, bool]:
    """Return the most bytes/s that a node has shown, and whether that is its own limit."""
    own = [
        way
        for peer, way in ways[name].items()
        if not _explained(cluster.node(name), cluster.node(peer), way, ways[peer], levels)
    ]
    latest = max((way.at for way in own), default=-inf)
    return max(way.rate for way in ways[name].values() if way.at >= latest - FRESH), bool(own)


def _explained(
    here: Node, there: Node, way: _Way, others: Mapping[str, _Way], levels: Mapping[Level, float]
) -> bool:
    """Whether something else than this node's link may have limited what passed: a late reader, or a
    far end or a level between the two that is as slow with others."""
    if way.held_up:
        return True
    typical = levels.get(_level(here, there))
    if typical is not None and way.rate >= ALIKE * typical:
        return True
    rest = [other.rate for peer, other in others.items() if peer != here.name]
    return bool(rest) and ALIKE <= max(rest) / way.rate <= 1 / ALIKE


def _levels(cluster: Cluster, ways: Mapping[str, Mapping[str, _Way]]) -> dict[Level, float]:
    """Return what hops over each level above a rack usually carry."""
    found: dict[Level, list[float]] = {}
    for name, peers in ways.items():
        for peer, way in peers.items():
            level = _level(cluster.node(name), cluster.node(peer))
            if level > Level.RACK and name < peer:
                found.setdefault(level, []).append(way.rate)
    return {level: median_high(rates) for level, rates in found.items() if len(rates) > RATED}


def _level(here: Node, there: Node) -> Level:
    if here.domain != there.domain:
        return Level.CLUSTER
    return Level.RACK if here.rack == there.rack else Level.DOMAIN


def _usual(rated: float, shown: Iterable[float]) -> float:
    """Return the bytes/s usual for a kind of nodes: the median, in which the claim counts, too."""
    return median_high([*shown, *(rated,) * RATED])


def _faded(rate: float, rated: float, age: float) -> float:
    """Return a rate that comes back to the claim, by half of its logarithm in a half-life: a node that
    is avoided reports nothing, and may have been repaired."""
    weight = 0.5 ** (max(0.0, age) / HALF_LIFE)
    return float(rate**weight * rated ** (1 - weight))
