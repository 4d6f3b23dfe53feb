"""The nodes that jobs could use beyond those that are there, and the nodes that nobody needs.

Policies are left out of it: which job is served first changes by the minute, allocations of an engine
take longer. Waiting gangs are packed onto what is free, highest priority and oldest first; what does
not fit is wanted, less the free devices that a gang could use beside new ones. Then elastic jobs, up
to their most. A job that a fixed quota keeps waiting wants nothing: no node would help it.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from math import inf

from muster.core.cycle.option_cache import OptionCache
from muster.core.cycle.options import Option
from muster.core.quotas.demand import held_by_type, now_and_then
from muster.core.quotas.quotas import Tallies, user_key
from muster.model.cluster import NodeState
from muster.model.job import Job, Need, Role
from muster.model.placement import Slot
from muster.model.pool import EVERY_TYPE
from muster.model.topology import Level, each_bit
from muster.model.view import JobState, Phase, View
from muster.place.board import Board
from muster.place.pack import pack
from muster.place.request import Request
from muster.planner.counts import plan_for
from muster.ports import NodeDemand


def node_demand(view: View) -> NodeDemand:
    """Return what waiting and elastic jobs could use beyond the nodes there are."""
    asked = _Asked(view)
    live = [state for state in view.jobs.values() if not (state.held_by or state.awaited)]
    waiting = [state for state in live if state.phase is Phase.WAITING]
    for state in sorted(waiting, key=lambda s: (-s.job.priority, s.submitted, s.number)):
        asked.start(state.job)
    for state in live:
        if state.job.elastic:
            asked.grow(state)
    return asked.demand()


class _Asked:
    """What is wanted so far, and what is still free."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._options = OptionCache(view.cluster)
        self._devices: Counter[str] = Counter()
        self._largest = 0
        self._bare = False
        """Whether a job without devices finds no node."""
        self._useful: set[str] = set()
        """Nodes that some waiting or growing job can use."""
        self._hopeless: set[Request] = set()
        """What did not fit: less and less is free."""
        self._refused: set[int] = set()
        """Jobs that a fixed quota keeps waiting."""

    @cached_property
    def _board(self) -> Board:
        """What is free, made when it is first asked for: most of the time nobody waits."""
        return Board(self._view.cluster)

    @cached_property
    def _tallies(self) -> Tallies:
        tallies = Tallies(self._view.pools)
        for state in self._view.jobs.values():
            tallies.enter(state, 1, *now_and_then(self._view.cluster, state))
        return tallies

    def start(self, job: Job) -> None:
        """Place a waiting gang on what is free, or want what it lacks."""
        gang = plan_for(job, job.workers.gang).devices
        device_type, room = self._fixed_room(job)
        if gang > room:
            self._refused.add(job.number)
            return
        slots = self._placed(job)
        if slots is not None:
            self._take(slots)
        elif gang:
            self._want(job, device_type, gang, self._options.of(job))
        else:
            self._bare = True
        self._count(job, device_type, gang)

    def grow(self, state: JobState) -> None:
        """Want what the job could have beyond what it has, or will have once it has started."""
        job, placement = state.job, state.target or state.placement
        if state.number in self._refused or job.locality.widest <= Level.NODE:
            return
        workers = placement.count(Role.WORKER) if placement else job.workers.gang
        more = plan_for(job, job.workers.most).devices - plan_for(job, workers).devices
        device_type, room = self._fixed_room(job)
        options = self._options.of(job)
        if placement is not None and (held := held_by_type(self._view.cluster, placement.slots)):
            device_type = max(held, key=lambda each: held[each])
            room = self._room_of(job, device_type)
            used = self._options.used_by(job, placement)
            options = options if used is None else (used,)
        more = int(min(more, room))
        if more > 0:
            self._want(job, device_type, more, options, alone=False)
            self._count(job, device_type, more)

    def demand(self) -> NodeDemand:
        """Return all of it."""
        devices = dict(+self._devices)
        if self._bare and not devices:
            devices = {"": 1}  # any node will do
        busy = {slot.node for state in self._view.jobs.values() for slot in state.held()}
        nodes = self._view.cluster.nodes
        idle = (
            node.name
            for node in nodes
            if node.state is not NodeState.LOST
            and node.name not in busy
            and node.name not in self._useful
        )
        return NodeDemand(devices, self._largest, tuple(idle), tuple(node.name for node in nodes))

    def _placed(self, job: Job) -> tuple[Slot, ...] | None:
        """Return slots for the gang on the first option with room."""
        for option in self._options.of(job):
            request = self._options.request(job, job.workers.gang, option)
            if request in self._hopeless:
                continue
            placement = pack(self._board, request)
            if placement is not None:
                return placement.slots
            self._hopeless.add(request)
        return None

    def _want(
        self,
        job: Job,
        device_type: str,
        devices: int,
        options: Iterable[Option],
        *,
        alone: bool = True,
    ) -> None:
        """Use what is free of the best option, and want the rest."""
        near = job.locality.widest <= Level.NODE
        best: tuple[Slot, ...] = ()
        for option in () if near else options:
            slots = self._usable(job, devices, option)
            best = max(best, slots, key=_devices)
        self._take(best)
        rest = devices - _devices(best)
        if rest > 0:
            self._devices[device_type if job.device_types else ""] += rest
            task = max(spec.need.devices for spec in job.roles)
            self._largest = max(self._largest, devices if near and alone else task)

    def _usable(self, job: Job, devices: int, option: Option) -> tuple[Slot, ...]:
        """Return free devices for workers of the job, of the group of nodes that has the most."""
        need, widest = job.workers.need, self._options.request(job, job.workers.gang, option).widest
        if not need.devices or self._board.free_devices(option) < need.devices:
            return ()
        members = sum(self._board.shelves[kind].members for kind in option)
        best: tuple[Slot, ...] = ()
        for group in self._board.groups(max(widest, Level.RACK)):
            slots = self._slots(group & members, need, devices // need.devices)
            best = max(best, slots, key=_devices)
        return best

    def _slots(self, nodes: int, need: Need, tasks: int) -> tuple[Slot, ...]:
        """Return what these nodes have free for at most this number of tasks, a slot per node."""
        found = []
        for node in each_bit(nodes):
            count = min(tasks, self._board.tasks_fitting(node, need))
            if count:
                bits = _lowest(self._board.free[node], count * need.devices)
                whole = Need(count * need.devices, count * need.millicores, count * need.memory)
                found.append(Slot(Role.WORKER, 0, self._board.names[node], bits, whole))
                tasks -= count
            if not tasks:
                break
        return tuple(found)

    def _take(self, slots: Iterable[Slot]) -> None:
        taken = tuple(slots)
        if taken:
            self._board.take(taken)
            self._useful.update(slot.node for slot in taken)

    def _count(self, job: Job, device_type: str, devices: int) -> None:
        tallies = self._tallies
        tallies.add(tallies.held, tallies.fixed_held, job, {device_type: devices}, 1)

    def _fixed_room(self, job: Job) -> tuple[str, float]:
        """Return the device type of which fixed quotas leave the job the most, and how much."""
        types = job.device_types or (*self._view.cluster.device_types(), EVERY_TYPE)
        rooms = {each: self._room_of(job, each) for each in types}
        best = max(rooms, key=lambda each: rooms[each])
        return best, rooms[best]

    def _room_of(self, job: Job, device_type: str) -> float:
        """Return the devices that quotas which are fixed numbers leave the job; a part grows with
        the nodes."""
        pools, tallies = self._view.pools.pools, self._tallies
        room = inf
        for name in self._view.pools.ancestry(job.pool):
            quota = pools[name].quota(device_type)
            if quota.limit is not None and quota.limit_part is None:
                room = min(room, quota.limit - tallies.held[name, device_type])
            if (each := pools[name].devices_per_user) is not None:
                room = min(room, each - tallies.held[name, user_key(job.user)])
        own = pools[job.pool].quota(device_type)
        if not job.preemptible and own.reservation_part is None:
            room = min(room, own.reservation - tallies.fixed_held[job.pool, device_type])
        return room


def _devices(slots: tuple[Slot, ...]) -> int:
    return sum(slot.need.devices for slot in slots)


def _lowest(bits: int, count: int) -> int:
    """Return the lowest set bits, this many."""
    found = 0
    for position in list(each_bit(bits))[:count]:
        found |= 1 << position
    return found
