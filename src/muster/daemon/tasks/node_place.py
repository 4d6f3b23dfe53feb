"""Where the tasks of a node are reached, and what their devices are made of."""

from dataclasses import dataclass

from muster.executors.environment import PORTS
from muster.model.cluster import Cluster

VIRTUAL = "cpu"
"""The type of devices made of CPU cores."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """What a task's environment says of its node."""

    host: str
    """The address at which others reach its tasks."""
    virtual: bool = False
    """Whether its devices are made of CPU cores."""
    interface: str = ""
    """Network interface of the address; empty: the libraries' own choice."""
    ports: range = PORTS
    """Ports at which its tasks may listen."""
    here: bool = True
    """Whether it is the daemon's machine, on which it can see what is free."""


def place_of(cluster: Cluster, name: str, host: str) -> NodePlace:
    """Return the place of a node; `host`: the address of nodes of the daemon's machine."""
    node = cluster.node(name)
    virtual = cluster.configuration_of(node).device_type in (VIRTUAL, "")
    offer = node.offer
    if offer is None:
        return NodePlace(host, virtual)
    first, last = offer.ports
    return NodePlace(
        offer.address or host,
        virtual or offer.virtual,
        offer.interface,
        range(first, last + 1),
        here=False,
    )
