"""The shape of a placement: everything that matters for its speed, without names of nodes and racks.

Placements of one shape take the same time, so answers are cached by shape. Tuples rather than
dataclasses: a shape is built and hashed for every question.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster.model.cluster import Cluster, Node
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.topology import Layer, each_bit


class Seat(NamedTuple):
    """A task on a host: its role, its number in it, and the bits of its devices.

    A task without devices has millicores and bytes of memory instead.
    """

    role: Role
    task: int
    bits: int
    millicores: int = 0
    memory: int = 0


class Host(NamedTuple):
    """A node in use: its configuration set, the numbers of its rack and domain, and its tasks."""

    configuration: str
    rack: int
    domain: int
    seats: tuple[Seat, ...]


Shape = tuple[Host, ...]
"""Hosts ordered by domain and rack: neighbours in the order are near in the network."""


@dataclass(frozen=True, slots=True)
class PlacedShape:
    """A shape, and the names of its hosts, racks and domains."""

    shape: Shape
    hosts: tuple[str, ...]
    racks: tuple[str, ...]
    domains: tuple[str, ...]


def site_of(cluster: Cluster, placement: Placement) -> PlacedShape:
    """Return the shape of a placement with its names."""
    seats: dict[str, list[Seat]] = {}
    for slot in placement.slots:
        need = slot.need
        seat = (
            Seat(slot.role, slot.index, slot.bits)
            if slot.bits
            else Seat(slot.role, slot.index, 0, need.millicores, need.memory)
        )
        seats.setdefault(slot.node, []).append(seat)
    nodes = _in_order([cluster.node(name) for name in seats])
    racks: dict[str, int] = {}
    domains: dict[str, int] = {}
    shape = tuple(
        Host(
            node.configuration,
            racks.setdefault(f"{node.domain}/{node.rack}", len(racks)),
            domains.setdefault(node.domain, len(domains)),
            tuple(seats[node.name]),
        )
        for node in nodes
    )
    return PlacedShape(shape, tuple(node.name for node in nodes), tuple(racks), tuple(domains))


def symmetry(layers: Sequence[Layer], parts: Sequence[int]) -> tuple[str, ...]:
    """Return what is equal for tasks on bitmaps of devices that differ by swapping equal subtrees."""
    whose = {1 << bit: f"{i}" for i, bits in enumerate(parts) for bit in each_bit(bits)}
    for depth, layer in enumerate(layers):
        for group in layer.groups:
            inside = [part for part in whose if part & ~group == 0]
            free = group.bit_count() - sum(part.bit_count() for part in inside)
            if inside and (len(inside) > 1 or free):
                below = ",".join(sorted(whose.pop(part) for part in inside))
                whose[group] = f"({depth} {below} {free})"
    return tuple(sorted(whose.values()))


def _in_order(nodes: list[Node]) -> list[Node]:
    """Group nodes by domain and rack, in the order in which tasks name them first."""
    racks: dict[str, dict[str, list[Node]]] = {}
    for node in nodes:
        racks.setdefault(node.domain, {}).setdefault(node.rack, []).append(node)
    return [node for inside in racks.values() for here in inside.values() for node in here]
