"""The links a transfer crosses, as edges of one tree from the device up to the cluster.

A device has a lane; devices under one switch share the switch's uplink, those of one socket the uplink
to the other socket; a node has one network card, a rack one uplink into its domain, a domain one into
the cluster. A process that sends from the node's memory has a port of its own. In an NVLink group each
device has another lane. Every edge carries its bandwidth in each direction.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from muster.model.cluster import Cluster
from muster.model.topology import ConfigurationSet, Level, Link
from muster.perf.shape import Host


class Wire(StrEnum):
    """The kind of an edge."""

    NVLINK = "nvlink"
    LANE = "lane"
    SWITCH = "switch"
    SOCKET = "socket"
    HOST = "host"
    NIC = "nic"
    RACK = "rack"
    DOMAIN = "domain"


_UPLINK = {Level.SOCKET: Wire.SWITCH, Level.NODE: Wire.SOCKET}
"""The wire that leads into the hub of a level: the uplink of the level below."""


class LinkClass(NamedTuple):
    """Equal edges: of one kind, in nodes of one configuration set ('' above the node)."""

    wire: Wire
    configuration: str = ""


Edge = tuple[LinkClass, int]
"""An edge inside a node: its class, and the bits of the devices below it."""


@dataclass(frozen=True, slots=True)
class Inside:
    """The edges inside nodes of one configuration set."""

    exits: tuple[tuple[Edge, ...], ...]
    """For each device: the edges between it and the node's memory or network card."""
    between: tuple[tuple[tuple[tuple[Edge, ...], LinkClass], ...], ...]
    """For each pair of devices: the edges going up on the first's side, and where they meet."""


def prior(cluster: Cluster, link: LinkClass) -> Link:
    """Return the rating of a class of links in the cluster file."""
    if link.wire is Wire.RACK:
        return cluster.links[Level.DOMAIN]
    if link.wire is Wire.DOMAIN:
        return cluster.links[Level.CLUSTER]
    kind = cluster.configurations[link.configuration]
    if link.wire is Wire.NIC:
        port = cluster.links[Level.RACK]
        return Link(min(kind.nic.bandwidth, port.bandwidth), kind.nic.latency + port.latency)
    return kind.host if link.wire is Wire.HOST else _inside_link(kind, link.wire)


def _inside_link(kind: ConfigurationSet, wire: Wire) -> Link:
    if wire is Wire.NVLINK:
        return max((layer.link for layer in kind.shortcuts), key=lambda link: link.bandwidth)
    if wire is Wire.LANE:
        return kind.tree[0].link
    return next(layer.link for layer in kind.tree if _UPLINK.get(layer.level) is wire)


class Wiring:
    """The links of one cluster, cached."""

    def __init__(self, cluster: Cluster, latency: Callable[[LinkClass], float] | None = None) -> None:
        self.cluster = cluster
        self.latency = latency or (lambda link: prior(cluster, link).latency)
        """Latency of a class of links, s: as learnt, else as rated."""
        self._inside: dict[str, Inside] = {}

    def inside(self, configuration: str) -> Inside:
        """Return the edges inside nodes of a configuration set."""
        if configuration not in self._inside:
            self._inside[configuration] = _inside(self.cluster.configurations[configuration])
        return self._inside[configuration]

    def host_latency(self, configuration: str) -> float:
        """Return the latency of one process of a node, s."""
        return self.latency(LinkClass(Wire.HOST, configuration))

    def card_latency(self, configuration: str) -> float:
        """Return the latency of a node's network card and its port in the rack, s."""
        return self.latency(LinkClass(Wire.NIC, configuration))

    def level_latency(self, here: Host, there: Host) -> float:
        """Return what the widest level between two nodes adds to the latency of a rack, s."""
        if here.rack == there.rack:
            return 0.0
        wire = Wire.RACK if here.domain == there.domain else Wire.DOMAIN
        return self.latency(LinkClass(wire)) - self.cluster.links[Level.RACK].latency

    def network_latency(self, here: Host, there: Host) -> float:
        """Return the latency between two nodes, s: the slower card, and the level between them."""
        cards = max(self.card_latency(here.configuration), self.card_latency(there.configuration))
        return cards + self.level_latency(here, there)


def _inside(kind: ConfigurationSet) -> Inside:
    count = kind.devices
    climbs = [_climb(kind, device) for device in range(count)]
    exits = tuple(tuple(edge for edge, level in climb if level < Level.NODE) for climb in climbs)
    lanes = tuple(
        exit_ or (climb[0][0],) for exit_, climb in zip(exits, climbs, strict=True)
    )  # a node whose only layer is the node itself still has a lane for each device
    between = tuple(tuple(_between(kind, climbs[a], a, b) for b in range(count)) for a in range(count))
    return Inside(lanes, between)


def _climb(kind: ConfigurationSet, device: int) -> list[tuple[Edge, Level]]:
    """Return the edges from a device up to the node's top, each with the level it leads into."""
    below = 1 << device
    edges = [((LinkClass(Wire.LANE, kind.name), below), kind.tree[0].level)]
    below = next(group for group in kind.tree[0].groups if group & below)
    for layer in kind.tree[1:]:
        around = next(group for group in layer.groups if group & below)
        if around != below:
            edges.append(((LinkClass(_UPLINK[layer.level], kind.name), below), layer.level))
        below = around
    return edges


def _between(
    kind: ConfigurationSet, climb: list[tuple[Edge, Level]], a: int, b: int
) -> tuple[tuple[Edge, ...], LinkClass]:
    pair = 1 << a | 1 << b
    if any(pair & ~group == 0 for layer in kind.shortcuts for group in layer.groups):
        nvlink = LinkClass(Wire.NVLINK, kind.name)
        return ((nvlink, 1 << a),), nvlink
    meet = next(layer for layer in kind.tree if any(pair & ~group == 0 for group in layer.groups))
    first = meet.level == kind.tree[0].level
    where = LinkClass(Wire.LANE if first else _UPLINK[meet.level], kind.name)
    return tuple(edge for edge, level in climb if level <= meet.level), where
