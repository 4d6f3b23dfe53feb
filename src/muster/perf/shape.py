"""What of a placement matters for its speed: everything but the names of nodes and racks.

Two placements of one shape take the same time, so answers are kept by shape, not by node. Tuples rather
than dataclasses: a shape is made and hashed for every question.
"""

from dataclasses import dataclass
from typing import NamedTuple

from muster.model.cluster import Cluster
from muster.model.job import Role
from muster.model.placement import Placement


class Seat(NamedTuple):
    """A task on a host: its role, which of that role, and the bits of its devices.

    A task without devices has thousandths of cores and bytes of memory instead.
    """

    role: Role
    task: int
    bits: int
    millicores: int = 0
    memory: int = 0


class Host(NamedTuple):
    """A node in use: what kind it is, the numbers of its rack and domain, and who sits there."""

    configuration: str
    rack: int
    domain: int
    seats: tuple[Seat, ...]


Shape = tuple[Host, ...]
"""Hosts ordered by domain and rack: neighbours in the order are near in the network."""


@dataclass(frozen=True, slots=True)
class Site:
    """A shape, and the names of the hosts, racks and domains it stands on."""

    shape: Shape
    hosts: tuple[str, ...]
    racks: tuple[str, ...]
    domains: tuple[str, ...]


def site_of(cluster: Cluster, placement: Placement) -> Site:
    """The shape of a placement, and where it stands."""
    seats: dict[str, list[Seat]] = {}
    for slot in placement.slots:
        need = slot.need
        seat = (
            Seat(slot.role, slot.index, slot.bits)
            if slot.bits
            else Seat(slot.role, slot.index, 0, need.millicores, need.memory)
        )
        seats.setdefault(slot.node, []).append(seat)
    places = sorted((n.domain, n.rack, n.name, n.configuration) for n in map(cluster.node, seats))
    racks: dict[str, int] = {}
    domains: dict[str, int] = {}
    shape = tuple(
        Host(
            configuration,
            racks.setdefault(f"{domain}/{rack}", len(racks)),
            domains.setdefault(domain, len(domains)),
            tuple(seats[name]),
        )
        for domain, rack, name, configuration in places
    )
    return Site(shape, tuple(place[2] for place in places), tuple(racks), tuple(domains))
