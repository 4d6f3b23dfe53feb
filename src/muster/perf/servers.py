"""Parameter servers: every worker pushes its gradients to their owners and pulls parameters back.

Owners are the workers themselves (sharded) or tasks of the role `server` (dedicated). For any subtree T
of the network with n_T of the n workers and the share O_T of the parameters, pushes that leave T carry
n_T (1 - O_T) bytes per byte of gradients and pulls (n - n_T) O_T, so pairs of tasks need no look. For
one worker's card this is the notes' (S + (n-2) O_j)/bw_j, for a server's n O_j/bw_j.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muster.model.job import Role
from muster.model.plan import Plan, Sync
from muster.model.topology import each_bit
from muster.perf.shape import Seat, Shape
from muster.perf.traffic import Last, Load, Place, Sums, SyncStage
from muster.perf.wires import LinkClass, Wire, Wiring


@dataclass(frozen=True, slots=True)
class Holdings:
    """The number of workers that push, and the share of the parameters of each owner."""

    workers: int
    owner: Role
    shares: tuple[float, ...]

    def of(self, seat: Seat) -> float:
        """Return the share that a task owns."""
        return self.shares[seat.task] if seat.role is self.owner else 0.0


def holdings(plan: Plan, shape: Shape) -> Holdings:
    """Return who owns what under a plan."""
    owner = Role.SERVER if plan.sync is Sync.DEDICATED else Role.WORKER
    count = {role: sum(s.role is role for host in shape for s in host.seats) for role in Role}
    owners = count[owner]
    return Holdings(count[Role.WORKER], owner, plan.owners or (1 / owners,) * owners)


def push_and_pull(plan: Plan, shape: Shape, wiring: Wiring) -> tuple[SyncStage, SyncStage]:
    """Return the two halves of a synchronisation by parameter servers."""
    held = holdings(plan, shape)
    push, pull = Sums(), Sums()
    _lanes(shape, wiring, push, pull)
    for place, works, owns, _ in _subtrees(shape, held):
        leaves, enters = works * (1 - owns), (held.workers - works) * owns
        if leaves > 0 or enters > 0:
            push.out(place, leaves)
            push.into(place, enters)
            pull.out(place, enters)
            pull.into(place, leaves)
    latency = _latency(shape, wiring)
    return SyncStage(push.loads(), 1, latency), SyncStage(pull.loads(), 1, latency)


def both_at_once(plan: Plan, shape: Shape, wiring: Wiring) -> SyncStage:
    """Return both halves at once, chunk by chunk: each is pulled as soon as it is summed.

    Every edge carries as much out as in. When a worker has sent its last gradient, the last chunk of
    every owner is still to arrive: all share the worker's links and end together (measured in network
    namespaces).
    """
    held = holdings(plan, shape)
    owners = sum(share > 0 for share in held.shares)
    sums, last = Sums(), {}
    _lanes(shape, wiring, sums, sums)
    loads = sums.loads()
    for place, works, owns, own in _subtrees(shape, held):
        leaves, enters = works * (1 - owns), (held.workers - works) * owns
        if leaves > 0 or enters > 0:
            loads[place] = Load(leaves + enters, leaves + enters)
        if works and owners > own:
            last[place] = Last(leaves, works * (owners - own))
    return SyncStage(loads, 2, _latency(shape, wiring), last)


def _lanes(shape: Shape, wiring: Wiring, push: Sums, pull: Sums) -> None:
    """Add the way of gradients from each worker's first device to the node's memory, and back."""
    for i, host in enumerate(shape):
        for seat in host.seats:
            if seat.role is Role.WORKER and seat.bits:
                device = next(each_bit(seat.bits))
                for link, below in wiring.inside(host.configuration).exits[device]:
                    push.out((link, i, below), 1.0)
                    pull.into((link, i, below), 1.0)


def _subtrees(shape: Shape, held: Holdings) -> Iterator[tuple[Place, int, float, int]]:
    """Yield each edge above a task's memory with the workers, share and owners below it."""
    racks: defaultdict[int, list[Below]] = defaultdict(list)
    domains: defaultdict[int, list[Below]] = defaultdict(list)
    for i, host in enumerate(shape):
        port = LinkClass(Wire.HOST, host.configuration)
        seats = [_below(seat, held) for seat in host.seats]
        for j, below in enumerate(seats):
            yield (port, i, j), *below
        here = _together(seats)
        yield (LinkClass(Wire.NIC, host.configuration), i, 0), *here
        racks[host.rack].append(here)
        domains[host.domain].append(here)
    for wire, groups in ((Wire.RACK, racks), (Wire.DOMAIN, domains)):
        for number, parts in groups.items():
            yield (LinkClass(wire), number, 0), *_together(parts)


Below = tuple[int, float, int]
"""Workers, share of the parameters, and owners below an edge."""


def _below(seat: Seat, held: Holdings) -> Below:
    share = held.of(seat)
    return int(seat.role is Role.WORKER), share, int(share > 0)


def _together(parts: Sequence[Below]) -> Below:
    return (
        sum(works for works, _, _ in parts),
        sum(share for _, share, _ in parts),
        sum(owners for _, _, owners in parts),
    )


def _latency(shape: Shape, wiring: Wiring) -> float:
    """Return the latency between the two processes farthest apart, s."""
    ports = max(wiring.host_latency(host.configuration) for host in shape)
    if len(shape) == 1:
        return ports
    # Hosts are ordered by domain and rack, so the first and the last are as far apart as any.
    cards = max(wiring.card_latency(host.configuration) for host in shape)
    return ports + cards + wiring.level_latency(shape[0], shape[-1])
