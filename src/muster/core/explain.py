"""Why a job waits: what binds, who holds it, and the smallest change with which it would start now.

Asked at the end of a cycle, when the board no longer changes, so jobs of equal shape share an answer.

The smallest change is looked for in this order: the contract one level wider (and so on), another
device type, becoming preemptible, fewer cores or less memory beside the devices where those bind, and
last fewer devices. The first that would start is named.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from muster.core.desk import Desk
from muster.core.floors import find
from muster.core.options import Option
from muster.model.cluster import NodeState
from muster.model.job import Job, Need
from muster.model.reason import Change, Code, Holder, Quantity, Reason, Shortfall
from muster.model.topology import Level, each_bit
from muster.model.view import JobState
from muster.place.request import Request

HOLDERS = 3
"""Holders named in a reason: enough to know whom to ask."""


class Explainer:
    """Answers for the jobs that wait at the end of one cycle."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._known: dict[tuple[object, ...], Reason] = {}
        self._by_node: dict[str, Counter[str]] | None = None

    def why_waiting(self, state: JobState) -> Reason:
        """The reason this job waits."""
        desk, job = self._desk, state.job
        if job.name not in desk.allocations:
            return Reason(Code.WAITING_POLICY)
        code = desk.outcome.obstacles[job.name]
        promise = desk.outcome.promises.get(job.name)
        if code in (Code.WAITING_RECLAIM, Code.WAITING_MIGRATION) and promise is not None:
            return Reason(code, holders=self._holders(promise.placement.nodes(), job.name))
        workers = desk.allocations[job.name].least
        shape = (job.pool, job.roles, job.device_types, job.same_generation, job.locality)
        key = (*shape, job.profile, job.preemptible, code, workers, promise)
        if key not in self._known:
            self._known[key] = self._explain(job, workers, code)
        return self._known[key]

    def _explain(self, job: Job, workers: int, code: Code) -> Reason:
        desk = self._desk
        option = desk.options(job)[0]
        request = desk.request(job, workers, option)
        if code in (Code.WAITING_LIMIT, Code.WAITING_RESERVATION, Code.WAITING_QUOTA):
            return self._quota_reason(job, workers, option, code)
        promised = job.name in desk.outcome.promises
        desk.release(job.name)  # its own promise is not in its way
        reason = self._room_reason(job, workers, option, request)
        if promised:
            desk.retain(job.name)
        return reason

    def _room_reason(self, job: Job, workers: int, option: Option, request: Request) -> Reason:
        lender = self._lender(job, workers)
        free = self._desk.board.free_devices(option)
        code = Code.WAITING_PROMISE if lender else self._room_code(request, free)
        largest = self._largest(job, workers, option)
        return Reason(
            code,
            shortfall=Shortfall(request.plan.devices, free, largest, request.widest),
            holders=self._holders(self._nearest_nodes(request), job.name),
            would_start=self._smallest_change(job, workers, code),
            beneficiary=lender,
        )

    def _quota_reason(self, job: Job, workers: int, option: Option, code: Code) -> Reason:
        desk = self._desk
        return Reason(
            code,
            quantity=self._binding(job, workers, code),
            holders=self._in_pool(job.pool, desk.types(option)),
            would_start=self._smallest_change(job, workers, code),
        )

    def _binding(self, job: Job, workers: int, code: Code) -> Quantity | None:
        """The quota that stopped the job on the first option where this was the obstacle."""
        desk = self._desk
        for option in desk.options(job):
            devices = desk.request(job, workers, option).plan.devices
            for device_type in desk.types(option):
                found = desk.books.binding(job, {device_type: devices}, code)
                if found is not None:
                    return found
        return None

    def _room_code(self, request: Request, free: int) -> Code:
        desk = self._desk
        out = sum(
            desk.view.cluster.configurations[node.configuration].devices
            for node in desk.view.cluster.nodes
            if node.state is not NodeState.UP and node.configuration in request.kinds
        )
        if free < request.plan.devices:
            return Code.WAITING_NODES if free + out >= request.plan.devices else Code.WAITING_DEVICES
        bare = tuple(replace(p, need=Need(devices=p.need.devices)) for p in request.plan.parts)
        bare = tuple(part for part in bare if part.need.devices)
        without = replace(request, plan=replace(request.plan, parts=bare))
        if not bare or desk.place(_NOBODY, without) is not None:
            return Code.WAITING_CORES
        return Code.WAITING_FRAGMENTED

    def _lender(self, job: Job, workers: int) -> str | None:
        """The older job whose promise alone stands in the way."""
        desk = self._desk
        for name in list(desk.outcome.promises):
            if name == job.name:
                continue
            desk.release(name)
            placement, _ = find(desk, job, workers)
            desk.retain(name)
            if placement is not None:
                return name
        return None

    def _largest(self, job: Job, workers: int, option: Option) -> int:
        """Most devices of the gang that would fit now inside the contract on this option."""
        fewer = self._most(
            workers, lambda n: self._desk.place(job, self._desk.request(job, n, option)) is not None
        )
        return self._desk.request(job, fewer, option).plan.devices if fewer else 0

    def _smallest_change(self, job: Job, workers: int, code: Code) -> Change | None:
        for change, changed in _variants(job, self._desk.view.cluster.device_types()):
            if find(self._desk, changed, workers)[0] is not None:
                return change
        if code is Code.WAITING_CORES:
            leaner = self._fewer_cores(job, workers) or self._less_memory(job, workers)
            if leaner is not None:
                return leaner
        fewer = self._most(workers, lambda n: find(self._desk, job, n)[0] is not None)
        if not fewer:
            return None
        return Change("devices" if job.workers.need.devices else "workers", str(fewer))

    def _fewer_cores(self, job: Job, workers: int) -> Change | None:
        asked = job.workers.need.millicores // _HALF_CORE
        most = self._most(asked, lambda n: self._fits(job, workers, millicores=n * _HALF_CORE))
        return Change("cores", f"{most * _HALF_CORE / 1000:g}") if most else None

    def _less_memory(self, job: Job, workers: int) -> Change | None:
        asked = job.workers.need.memory // _GB
        most = self._most(asked, lambda n: self._fits(job, workers, memory=n * _GB))
        return Change("memory", f"{most}GB") if most else None

    def _fits(self, job: Job, workers: int, **need: int) -> bool:
        """Whether the job would start with another need of its workers."""
        own = job.workers
        other = replace(own, need=replace(own.need, **need))
        roles = tuple(other if spec is own else spec for spec in job.roles)
        return find(self._desk, replace(job, roles=roles), workers)[0] is not None

    def _most(self, below: int, fits: Callable[[int], bool]) -> int:
        """The most, less than asked, for which it fits; 0 if not even 1."""
        low, high = 0, below - 1
        while low < high:
            middle = (low + high + 1) // 2
            if fits(middle):
                low = middle
            else:
                high = middle - 1
        return low if low and fits(low) else 0

    def _nearest_nodes(self, request: Request) -> set[str]:
        """The nodes of the group that is closest to having room: most free devices."""
        board = self._desk.board
        members = sum(board.shelves[kind].members for kind in request.kinds)
        if request.widest > Level.NODE:
            groups: Iterable[int] = board.groups(request.widest)
        else:
            groups = (1 << node for node in each_bit(members))
        best, most = 0, -1
        for mask in groups:
            free = sum(board.free[node].bit_count() for node in each_bit(mask & members))
            if free > most:
                best, most = mask & members, free
        return {board.names[node] for node in each_bit(best)}

    def _holders(self, nodes: set[str], job: str) -> tuple[Holder, ...]:
        found: Counter[str] = Counter()
        for node in nodes:
            found.update(self._index().get(node, {}))
        found.pop(job, None)
        return self._largest_holders(found)

    def _in_pool(self, pool: str, types: tuple[str, ...]) -> tuple[Holder, ...]:
        found: Counter[str] = Counter()
        for state in self._desk.view.jobs.values():
            if state.placement is not None and state.job.pool == pool:
                amounts = self._desk.amounts(state.placement.slots)
                found[state.name] += sum(amounts[t] for t in types)
        return self._largest_holders(found)

    def _largest_holders(self, found: Counter[str]) -> tuple[Holder, ...]:
        ranked = sorted(((n, name) for name, n in found.items() if n), key=lambda e: (-e[0], e[1]))
        jobs = self._desk.view.jobs
        return tuple(Holder(name, jobs[name].job.pool, n) for n, name in ranked[:HOLDERS])

    def _index(self) -> dict[str, Counter[str]]:
        """Devices that each job will hold on each node once this cycle's starts are done."""
        if self._by_node is None:
            self._by_node = {}
            starts = self._desk.outcome.starts
            for state in self._desk.view.jobs.values():
                started = starts.get(state.name)
                slots = started.placement.slots if started else state.held()
                for slot in slots:
                    there = self._by_node.setdefault(slot.node, Counter())
                    there[state.name] += slot.bits.bit_count()
        return self._by_node


_HALF_CORE, _GB = 500, 10**9
"""Steps in which a smaller need is looked for."""
_NOBODY = Job(name="")
"""A job of no role, for questions that concern devices only."""


def _variants(job: Job, types: tuple[str, ...]) -> Iterator[tuple[Change, Job]]:
    """The job with one thing changed, the smallest change first."""
    for level in Level:
        if level > job.locality.widest:
            locality = replace(job.locality, widest=level)
            yield Change("locality", level.word), replace(job, locality=locality)
    if job.locality.max_slowdown is not None:
        locality = replace(job.locality, max_slowdown=None)
        yield Change("max_slowdown", "none"), replace(job, locality=locality)
    for device_type in types:
        if job.device_types and device_type not in job.device_types:
            allowed = (*job.device_types, device_type)
            yield Change("any_of", device_type), replace(job, device_types=allowed)
    if not job.preemptible:
        yield Change("preemptible", "true"), replace(job, preemptible=True)
