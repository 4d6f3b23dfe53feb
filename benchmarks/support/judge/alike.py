"""Equivalent tasks of a shape: their transfers start and end together.

Two tasks are equivalent if the tree around them looks the same: the tasks below each of their edges,
their hosts, racks and domains. Two transfers are, if their ends are and they meet at the same level.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable

from muster.model.job import Role
from muster.model.topology import each_bit
from muster.perf.shape import Host, Seat, Shape
from muster.perf.wires import Wiring

Task = tuple[int, int]
"""The number of a host and of a seat there."""


def tasks_alike(shape: Shape, wiring: Wiring, sign: Callable[[Seat], Hashable]) -> dict[Task, int]:
    """The number of each task's class; `sign` says what of a task matters beside its place."""
    numbers: dict[Hashable, int] = {}

    def number(of: Hashable) -> int:
        return numbers.setdefault(of, len(numbers))

    seats = {
        (i, j): number(("seat", sign(seat), _around(host, seat, wiring, sign)))
        for i, host in enumerate(shape)
        for j, seat in enumerate(host.seats)
    }
    hosts = [
        number(("host", host.configuration, _bag(seats[i, j] for j in range(len(host.seats)))))
        for i, host in enumerate(shape)
    ]
    racks = _joined(hosts, [host.rack for host in shape], number)
    domains = _joined(hosts, [host.domain for host in shape], number)
    return {(i, j): number((seat, hosts[i], racks[i], domains[i])) for (i, j), seat in seats.items()}


def _around(
    host: Host, seat: Seat, wiring: Wiring, sign: Callable[[Seat], Hashable]
) -> tuple[Hashable, ...]:
    """Who else uses the edges between a worker's first device and the node's memory."""
    if seat.role is not Role.WORKER or not seat.bits:
        return ()
    exits = wiring.inside(host.configuration).exits[next(each_bit(seat.bits))]
    return tuple(
        (link, _bag(sign(other) for other in host.seats if other.bits & below)) for link, below in exits
    )


def _joined(hosts: list[int], groups: list[int], number: Callable[[Hashable], int]) -> list[int]:
    """For each host, the number of what its rack (or domain) holds."""
    members: defaultdict[int, list[int]] = defaultdict(list)
    for host, group in zip(hosts, groups, strict=True):
        members[group].append(host)
    return [number(("group", _bag(members[group]))) for group in groups]


def _bag(things: Iterable[Hashable]) -> frozenset[tuple[Hashable, int]]:
    return frozenset(Counter(things).items())
