"""The nodes of a Ray cluster, as Ray's control store describes them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

DEVICE = "GPU"
"""What Ray calls devices, whoever made them."""
TYPE_LABEL = "ray.io/accelerator-type"
RACK_LABELS = ("rack", "ray.io/rack", "topology.kubernetes.io/rack", "ray.io/availability-zone")
"""The first that a node has says where it stands."""
OWN = "ray.io/node-id"
"""A label that every node has, and that pins a placement group to it."""
NAME = re.compile(r"[^A-Za-z0-9._-]+")
MOST_LABELS = 32
"""Labels of one node to pass on."""


@dataclass(frozen=True, slots=True)
class RayNode:
    """A live node with devices."""

    id: str
    """Ray's; a restarted raylet has another."""
    name: str
    devices: int
    cores: float
    """Cores that Ray may lend."""
    device_type: str = ""
    rack: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    leaves_at: float | None = None
    """When Ray takes it back, in s since 1970; None: it stays."""


@dataclass(frozen=True, slots=True)
class RayDeath:
    """A node that Ray has declared dead."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class RayNodes:
    """One look at the control store."""

    alive: tuple[RayNode, ...] = ()
    dead: tuple[RayDeath, ...] = ()
    bare: int = 0
    """Live nodes without devices, which stay Ray's own."""


class NodeNames:
    """The name of each node, given once: two raylets of one machine need two."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def name(self, row: Mapping[str, Any], alive: Iterable[str]) -> str:
        """Return the node's name: Ray's own, else the machine's, with its id if another has that."""
        id = row["NodeID"]
        if id not in self._given:
            taken = {self._given[other] for other in alive if other in self._given}
            wanted = _wanted_name(row)
            self._given[id] = f"{wanted}-{id[:6]}" if wanted in taken else wanted
        return self._given[id]


def read_nodes(
    rows: Iterable[Mapping[str, Any]], leaving: Mapping[str, int], names: NodeNames
) -> RayNodes:
    """Read `ray.nodes()`; `leaving` has the nodes that Ray drains, with a deadline in ms since 1970."""
    rows = sorted(rows, key=lambda row: str(row["NodeID"]))
    live = [row for row in rows if row["Alive"]]
    ids = [row["NodeID"] for row in live]
    found = [_read(row, names.name(row, ids), leaving) for row in live]
    return RayNodes(
        alive=tuple(node for node in found if node.devices),
        dead=tuple(_death(row) for row in rows if not row["Alive"]),
        bare=sum(not node.devices for node in found),
    )


def _read(row: Mapping[str, Any], name: str, leaving: Mapping[str, int]) -> RayNode:
    resources, labels = row["Resources"], row.get("Labels") or {}
    deadline = leaving.get(row["NodeID"])
    return RayNode(
        id=row["NodeID"],
        name=name,
        devices=int(resources.get(DEVICE, 0)),
        cores=float(resources.get("CPU", 0)),
        device_type=labels.get(TYPE_LABEL) or _type_of(resources),
        rack=next((labels[each] for each in RACK_LABELS if labels.get(each)), ""),
        labels=dict(list(_shown(labels).items())[:MOST_LABELS]),
        leaves_at=None if deadline is None else deadline / 1000,
    )


def _death(row: Mapping[str, Any]) -> RayDeath:
    said = str(row.get("DeathReasonMessage") or "").strip().splitlines()
    return RayDeath(row["NodeID"], said[0][:200] if said else "its raylet ended")


def _shown(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in sorted(labels.items()) if name != OWN}


def _type_of(resources: Mapping[str, float]) -> str:
    """Return the type that older versions of Ray write into a resource's name."""
    prefix = "accelerator_type:"
    return next((name.removeprefix(prefix) for name in resources if name.startswith(prefix)), "")


def _wanted_name(row: Mapping[str, Any]) -> str:
    given, address = row.get("NodeName") or "", row.get("NodeManagerAddress") or ""
    wanted = given if given != address else row.get("NodeManagerHostname") or given
    return NAME.sub("-", wanted).strip("-.") or row["NodeID"][:12]
