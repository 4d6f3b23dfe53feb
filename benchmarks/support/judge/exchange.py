"""Pushes to owners and pulls from them, chunk by chunk, for `replay`.

Each worker sends its part of every chunk to the chunk's owner, to all owners at once and to each in
order. When the last worker's part has arrived the chunk is summed, and all workers pull it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from muster.model.job import Role
from muster.model.plan import Plan
from muster.model.topology import each_bit
from muster.perf.servers import holdings, push_and_pull
from muster.perf.shape import Seat, Shape
from muster.perf.wires import LinkClass, Wire, Wiring
from support.judge.alike import Task, tasks_alike
from support.judge.fair import Item, Way
from support.judge.script import NOTHING, Script


@dataclass(slots=True)
class Route:
    """Alike transfers from workers to owners: the kinds of both, what one owner holds, and how many
    of them cross each way of each edge."""

    worker: int
    owner: int
    share: float
    ways: Counter[Way] = field(default_factory=Counter)


class Exchange:
    """Who sends what to whom under a plan."""

    def __init__(self, plan: Plan, shape: Shape, wiring: Wiring, chunk: float) -> None:
        self._plan = plan
        self._held = holdings(plan, shape)
        self._chunk = chunk
        self._latency = push_and_pull(plan, shape, wiring)[0].latency
        self.kinds = tasks_alike(shape, wiring, self._sign)
        self._routes = self._found(shape, wiring)

    def push_and_pull(self, script: Script, ready: Mapping[int, Sequence[int]]) -> None:
        """Both at once; `ready`: for each kind of worker, the gates of its pieces."""
        pushers = Counter(route.owner for route in self._routes)
        summed = {
            route.owner: [
                script.gates.new(pushers[route.owner]) for _ in self._chunks(script, route.share)
            ]
            for route in self._routes
        }
        self.push(script, ready, summed)
        for route in self._routes:
            chunks, gates = self._chunks(script, route.share), summed[route.owner]
            pulls = (Item(size, gate, NOTHING) for (_, size), gate in zip(chunks, gates, strict=True))
            script.flow(_turned(route.ways), pulls, self._latency)

    def push(
        self,
        script: Script,
        ready: Mapping[int, Sequence[int]],
        summed: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Every worker's chunks to their owners."""
        for route in self._routes:
            chunks = list(self._chunks(script, route.share))
            then = summed[route.owner] if summed else [NOTHING] * len(chunks)
            gates = ready[route.worker]
            pushes = (
                Item(size, gates[piece], end) for (piece, size), end in zip(chunks, then, strict=True)
            )
            script.flow(route.ways, pushes, self._latency)

    def pull(self, script: Script) -> dict[int, list[int]]:
        """All parameters to every worker, those that the forward pass needs first in front; the gates
        that tell when each kind of worker has each piece."""
        needs: dict[int, Counter[int]] = {}
        for route in self._routes:
            cut = Counter(piece for piece, _ in self._chunks(script, route.share))
            needs.setdefault(route.worker, Counter()).update(cut)
        arrived = {
            worker: [script.gates.new(count[piece]) for piece in range(len(script.pieces))]
            for worker, count in needs.items()
        }
        for route in self._routes:
            chunks, gates = reversed(list(self._chunks(script, route.share))), arrived[route.worker]
            pulls = (Item(size, NOTHING, gates[piece]) for piece, size in chunks)
            script.flow(_turned(route.ways), pulls, self._latency)
        return arrived

    def _sign(self, seat: Seat) -> tuple[object, ...]:
        """What of a task matters: its samples say when it is ready, its share what it is sent."""
        works = seat.role is Role.WORKER
        samples = self._plan.batch[seat.task] if works and self._plan.batch else 0
        share = round(self._held.of(seat), 9)
        return seat.role, seat.bits.bit_count(), seat.millicores, samples, share

    def _chunks(self, script: Script, share: float) -> Iterator[tuple[int, float]]:
        """The number of the piece and the bytes of each chunk of an owner, in order."""
        for piece, (size, _) in enumerate(script.pieces):
            count = ceil(share * size / self._chunk)
            for _ in range(count):
                yield piece, share * size / count

    def _found(self, shape: Shape, wiring: Wiring) -> list[Route]:
        """Every pair of a worker and an owner, alike ones together."""
        seats = {(i, j): seat for i, host in enumerate(shape) for j, seat in enumerate(host.seats)}
        workers = [task for task, seat in seats.items() if seat.role is Role.WORKER]
        owners = [task for task, seat in seats.items() if self._held.of(seat) > 0]
        found: dict[tuple[object, ...], Route] = {}
        for a in workers:
            exits = _exits(a, seats[a], shape, wiring)
            for b in owners:
                key = (self.kinds[a], self.kinds[b], _meeting(a, b, shape))
                if key not in found:
                    found[key] = Route(key[0], key[1], self._held.of(seats[b]))
                found[key].ways.update(exits + _path(a, b, shape))
        return list(found.values())


def _meeting(a: Task, b: Task, shape: Shape) -> tuple[bool, ...]:
    here, there = shape[a[0]], shape[b[0]]
    return a == b, a[0] == b[0], here.rack == there.rack, here.domain == there.domain


def _exits(task: Task, seat: Seat, shape: Shape, wiring: Wiring) -> list[Way]:
    """From a worker's first device into the node's memory."""
    if not seat.bits:
        return []
    inside = wiring.inside(shape[task[0]].configuration)
    device = next(each_bit(seat.bits))
    return [((link, task[0], below), True) for link, below in inside.exits[device]]


def _path(a: Task, b: Task, shape: Shape) -> list[Way]:
    """From one task's memory to another's."""
    if a == b:
        return []
    here, there = shape[a[0]], shape[b[0]]
    ways: list[Way] = []
    for (host, seat), at, out in ((a, here, True), (b, there, False)):
        ways.append(((LinkClass(Wire.HOST, at.configuration), host, seat), out))
        if a[0] != b[0]:
            ways.append(((LinkClass(Wire.NIC, at.configuration), host, 0), out))
        if here.rack != there.rack:
            ways.append(((LinkClass(Wire.RACK), at.rack, 0), out))
        if here.domain != there.domain:
            ways.append(((LinkClass(Wire.DOMAIN), at.domain, 0), out))
    return ways


def _turned(ways: Mapping[Way, int]) -> dict[Way, int]:
    """The same transfers the other way round."""
    return {(place, not out): count for (place, out), count in ways.items()}
