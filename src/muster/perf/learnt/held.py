"""What a job runs on, as far as its speed goes: one shape for the simulator and the daemon."""

from dataclasses import dataclass, field

from muster.model.cluster import Cluster
from muster.model.job import Role
from muster.model.placement import Placement


@dataclass(frozen=True, slots=True)
class Held:
    """The type of the devices, workers on each node in the cluster's order, servers, and the batch."""

    device_type: str
    shape: tuple[int, ...]
    batch: int | None = None
    """The global batch chosen for it; None: its own."""
    servers: int = field(default=0, compare=False)
    """Not compared: what is learnt of speeds does not tell numbers of servers apart."""
    beside: tuple[tuple[str, int], ...] = ()
    """Workers on devices of other types, by type; they are in `shape`, too."""

    @property
    def workers(self) -> int:
        return sum(self.shape)

    @property
    def by_type(self) -> dict[str, int]:
        """Workers of each type."""
        others = dict(self.beside)
        return {self.device_type: self.workers - sum(others.values()), **others}


def packed(devices: int, node: int) -> tuple[int, ...]:
    """Return devices on full nodes of `node` devices, and the rest on one more."""
    full, rest = divmod(devices, node)
    return (node,) * full + ((rest,) if rest else ())


def held_on(placement: Placement, cluster: Cluster | None, batch: int | None) -> Held | None:
    """Return what a placement is for the speed; without a cluster its devices have no type. Of several
    types it is that of most workers, with the others beside. None without workers: a node that was lost
    while a job left it leaves it nothing until its new tasks run."""
    workers: dict[str, int] = {}
    for slot in placement.slots:
        if slot.role is Role.WORKER:
            workers[slot.node] = workers.get(slot.node, 0) + 1
    if not workers:
        return None
    servers = len(placement.slots) - sum(workers.values())
    if cluster is None:
        return Held("", tuple(workers.values()), batch, servers)
    nodes = sorted(workers, key=lambda name: cluster.index[name])
    types: dict[str, int] = {}
    for node in nodes:
        name = cluster.configuration_of(cluster.node(node)).device_type
        types[name] = types.get(name, 0) + workers[node]
    main = max(types, key=lambda each: types[each])
    beside = tuple((each, count) for each, count in types.items() if each != main)
    return Held(main, tuple(workers[node] for node in nodes), batch, servers, beside)
