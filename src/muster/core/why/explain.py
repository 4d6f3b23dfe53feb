"""Why a job waits: the obstacle, the holders, whom it competes with, and the smallest change with which
it would start now.

A job whose policy queues starts with a change if its gang then fits. One whose policy steers may fit
and still be given nothing: what would help it is found by deciding again, where somebody asks
(`advice`).

Runs at the end of a cycle, when the board no longer changes, so equal jobs share an answer.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.options import Option, admission_key
from muster.core.cycle.sections import SectionShares
from muster.core.cycle.start_gangs import find
from muster.core.why.rivals import Rivals
from muster.core.why.variants import largest, smallest_change
from muster.model.cluster import NodeState
from muster.model.job import Job, Need
from muster.model.placement import Placement, Slot
from muster.model.reason import Code, Holder, Lack, Quantity, Reason, RequestChange, Shortfall
from muster.model.topology import MAX_DEVICES, Level, each_bit
from muster.model.view import JobState
from muster.place.request import Request
from muster.planner.counts import plan_for

HOLDERS = 3
"""Holders named in a reason."""


class Explainer:
    """Explains why jobs wait at the end of one cycle."""

    def __init__(
        self,
        cycle: CycleState,
        pools: Collection[str] | None = None,
        shares: Collection[SectionShares] = (),
    ) -> None:
        """`pools`: leaf pools whose jobs it is asked about, None: all; `shares`: what their policies
        want, and how they rank jobs."""
        self._cycle = cycle
        self._pools = pools
        steering = [share for share in shares if share.steers]
        self._steered = frozenset[str]().union(*(share.pools for share in steering))
        """Pools whose policy steers."""
        self._queues_anyway = {each.job for share in steering for each in share.gangs}
        merits = ((share.merits(), share.steers) for share in shares if share.merits is not None)
        self.rivals = Rivals(cycle.view, cycle.entitled, merits, self._slots)
        self._known: dict[tuple[object, ...], Reason] = {}
        self._near: dict[tuple[Option, Level], tuple[Holder, ...]] = {}
        self._inside: dict[tuple[str, ...], tuple[Holder, ...]] = {}
        """By pool, type and user."""

    def why_waiting(self, state: JobState) -> Reason:
        """Return the reason this job waits, with its rank."""
        reason = self._why_waiting(state)
        if not state.may_start(self._cycle.now):
            return reason  # its state says more
        rank = self.rivals.rank(state)
        return reason if rank is None else replace(reason, rank=rank)

    def _why_waiting(self, state: JobState) -> Reason:
        cycle, job = self._cycle, state.job
        if not (asked := cycle.allocations.get(job.number)) or not asked.most:
            return self._why_left_out(state)
        code = cycle.outcome.obstacles[job.number]
        promise = cycle.outcome.promises.get(job.number)
        if code in (Code.WAITING_RECLAIM, Code.WAITING_MIGRATION) and promise is not None:
            return Reason(code, holders=self._holders(promise.placement.bits()))
        key = (*self._likes(job), code)
        if key not in self._known:
            self._known[key] = self._explain(job, asked.least, code)
        return self._known[key]

    def _why_left_out(self, state: JobState) -> Reason:
        """Explain a job that the policy gives nothing: by what its gang lacks, if anything."""
        if not state.may_start(self._cycle.now):
            return Reason(Code.WAITING_POLICY)
        job = state.job
        key = (*self._likes(job), Code.WAITING_POLICY)
        if key not in self._known:
            obstacle = self._obstacle(job)
            found = None if obstacle is None else self._explain(job, job.workers.gang, obstacle)
            self._known[key] = self._user_limit(job) or found or Reason(Code.WAITING_POLICY)
        return self._known[key]

    def _obstacle(self, job: Job) -> Code | None:
        """Return what would stop the gang now, within its pool or borrowing; None: it would start."""
        placement, obstacle = find(self._cycle, job, job.workers.gang)
        if placement is None and job.preemptible:
            placement, borrowing = find(self._cycle, job, job.workers.gang, borrow=True)
            obstacle = borrowing if borrowing in _LIMITS else obstacle
        return obstacle if placement is None else None

    def _likes(self, job: Job) -> tuple[object, ...]:
        """Return a key of jobs with the same answer; one with a promise has its own."""
        cycle = self._cycle
        own = job.number if job.number in cycle.outcome.promises else None
        user = cycle.quotas.capped_user(job)
        return (*admission_key(job), self._least(job), own, cycle.quotas.earmarked_for(job), user)

    def _least(self, job: Job) -> int:
        """Return the workers it would start with; if the policy gives it none, its gang."""
        return self._cycle.least(job) or job.workers.gang

    def _explain(self, job: Job, workers: int, code: Code) -> Reason:
        if code not in _LIMITS and (lack := self._lack(job, workers)) is not None:
            change = self._smallest_change(job, workers, Code.WAITING_JOIN)
            return Reason(Code.WAITING_JOIN, would_start=change, lack=lack)
        if code in _QUOTAS:
            return self._quota_reason(job, workers, code)
        lender = self._lenders.get(self._likes(job))
        own = [job.number] if job.number in self._cycle.outcome.promises else []
        with self._cycle.without_promises(own):
            return self._room_reason(job, workers, lender)

    def _room_reason(self, job: Job, workers: int, lender: int | None) -> Reason:
        """Explain the option with the most free devices of those the pool could take."""
        cycle = self._cycle
        allowed = list(cycle.short_of_room(job, workers)) or cycle.options.of(job)
        if not allowed:
            return Reason(Code.WAITING_DEVICES)  # of a type this cluster does not have
        option = max(allowed, key=cycle.board.free_devices)
        request = cycle.options.request(job, workers, option)
        free = cycle.board.free_devices(option)
        code = Code.WAITING_PROMISE if lender else self._room_code(job, request, free)
        return Reason(
            code,
            shortfall=Shortfall(
                request.plan.devices, free, self._largest(job, workers, option), request.widest
            ),
            holders=self._nearest_holders(request),
            would_start=self._smallest_change(job, workers, code),
            beneficiary=self._name(lender) if lender else None,
            served=lender or 0,
        )

    def _lack(self, job: Job, workers: int) -> Lack | None:
        """Return what would have to join, if the gang fits on no state of the nodes there are."""
        cycle, cluster = self._cycle, self._cycle.view.cluster
        if not cluster.open:
            return None
        requests = [cycle.options.request(job, workers, option) for option in cycle.options.of(job)]
        if any(map(cycle.options.holds, requests)):
            return None
        types = job.device_types or cluster.device_types()
        kinds = [kind for kind in map(cluster.configuration_of, cluster.nodes) if kind.devices]
        counts = [kind.devices for kind in kinds if kind.device_type in types]
        asked = plan_for(job, workers).devices
        widest = requests[0].widest if requests else job.locality.widest
        return Lack(asked, job.device_types, sum(counts), max(counts, default=0), widest)

    def _quota_reason(self, job: Job, workers: int, code: Code) -> Reason:
        quantity = self._binding(job, workers, code)
        older = self._cycle.quotas.left_to(job, quantity) if quantity else None
        return Reason(
            code,
            quantity=quantity,
            holders=self._in_pool(quantity) if quantity else (),
            would_start=self._smallest_change(job, workers, code),
            beneficiary=self._name(older) if older else None,
            served=older or 0,
        )

    def _user_limit(self, job: Job) -> Reason | None:
        """Return the limit for each user that keeps the gang waiting, if one does: a policy that deals
        within it gives such a job nothing."""
        if self._cycle.quotas.capped_user(job) is None:
            return None
        code = Code.WAITING_USER_LIMIT
        found = self._binding(job, job.workers.gang, code)
        return Reason(code, quantity=found, holders=self._in_pool(found)) if found else None

    def _binding(self, job: Job, workers: int, code: Code) -> Quantity | None:
        """Return the quota that stopped the job on the first option with this obstacle."""
        cycle = self._cycle
        for option in cycle.options.pure(job):
            devices = cycle.options.request(job, workers, option).plan.devices
            found = cycle.quotas.binding(job, dict.fromkeys(cycle.options.types(option), devices), code)
            if found is not None:
                return found
        return None

    def _room_code(self, job: Job, request: Request, free: int) -> Code:
        cycle = self._cycle
        out = sum(
            cycle.view.cluster.configurations[node.configuration].devices
            for node in cycle.view.cluster.nodes
            if node.state is not NodeState.UP and node.configuration in request.kinds
        )
        if free < request.plan.devices:
            return Code.WAITING_NODES if free + out >= request.plan.devices else Code.WAITING_DEVICES
        bare = tuple(replace(p, need=Need(devices=p.need.devices)) for p in request.plan.parts)
        bare = tuple(part for part in bare if part.need.devices)
        without = replace(request, plan=replace(request.plan, parts=bare))
        if not bare or cycle.place(job, without) is not None:
            return Code.WAITING_CORES
        return Code.WAITING_FRAGMENTED

    @cached_property
    def _lenders(self) -> dict[tuple[object, ...], int | None]:
        """For jobs that would start if nothing were withheld: who the devices are promised to.

        Computed once for all waiting jobs: lifting every promise for each would be slow.
        """
        cycle, promises = self._cycle, self._cycle.outcome.promises
        found: dict[tuple[object, ...], int | None] = {}
        with cycle.without_promises(promises):
            for number in self._kept_waiting() if promises else ():
                job = cycle.view.jobs[number].job
                likes = self._likes(job)
                if likes not in found:
                    placement, _ = find(cycle, job, self._least(job))
                    found[likes] = self._promised_to(placement, number) if placement else None
        return found

    def _kept_waiting(self) -> Iterator[int]:
        """Yield the jobs that lack devices, and those that the policy gives nothing."""
        outcome, jobs, pools = self._cycle.outcome, self._cycle.view.jobs, self._pools
        for number in self._cycle.standing.waiting:
            if pools is not None and jobs[number].job.pool not in pools:
                continue
            obstacle = outcome.obstacles.get(number, Code.WAITING_DEVICES)
            if obstacle is Code.WAITING_DEVICES and number not in outcome.starts:
                yield number

    def _promised_to(self, placement: Placement, job: int) -> int | None:
        """Return the first other job that some of these devices are promised to."""
        bits = placement.bits()
        for promise in self._cycle.outcome.promises.values():
            promised = promise.placement.bits()
            if promise.job != job and any(promised.get(node, 0) & b for node, b in bits.items()):
                return promise.job
        return None

    def _largest(self, job: Job, workers: int, option: Option) -> int:
        """Return the most devices of the gang that fit now within the contract on this option."""
        cycle = self._cycle
        fewer = largest(
            workers, lambda n: cycle.place(job, cycle.options.request(job, n, option)) is not None
        )
        return cycle.options.request(job, fewer, option).plan.devices if fewer else 0

    def _smallest_change(self, job: Job, workers: int, code: Code) -> RequestChange | None:
        if job.pool in self._steered and job.number not in self._queues_anyway:
            return None
        types = self._cycle.view.cluster.device_types()
        lean = code in (Code.WAITING_CORES, Code.WAITING_JOIN)
        return smallest_change(job, workers, types, self._would_start, lean=lean)

    def _would_start(self, job: Job, workers: int) -> bool:
        """Whether the job would start now, within its pool or borrowing."""
        if find(self._cycle, job, workers)[0] is not None:
            return True
        return job.preemptible and find(self._cycle, job, workers, borrow=True)[0] is not None

    def _nearest_holders(self, request: Request) -> tuple[Holder, ...]:
        """Return the holders of the group closest to having room."""
        key = (request.kinds, request.widest)
        if key not in self._near:
            nodes = self._nearest_nodes(request)
            self._near[key] = self._holders(dict.fromkeys(nodes, _ALL))
        return self._near[key]

    def _nearest_nodes(self, request: Request) -> set[str]:
        """Return the nodes of the group with the most free devices, the first of several."""
        board, kinds = self._cycle.board, request.kinds
        members = sum(board.shelves[kind].members for kind in kinds)
        if request.widest > Level.NODE:
            counts = board.counts(request.widest, kinds)
            best = board.groups(request.widest)[int((counts @ np.arange(counts.shape[1])).argmax())]
        else:
            best = 0
            for free in range(MAX_DEVICES, -1, -1):
                each = (board.shelves[kind].by_count[free : free + 1] for kind in kinds)
                if found := sum(mask for masks in each for mask in masks):
                    best = found & -found
                    break
        return {board.names[node] for node in each_bit(best & members)}

    def _holders(self, wanted: Mapping[str, int]) -> tuple[Holder, ...]:
        """Return the holders of these devices."""
        found: Counter[int] = Counter()
        jobs, ledger = self._cycle.view.jobs, self._cycle.standing.ledger
        for number in {number for node in wanted for number in ledger.jobs_on(node)}:
            for slot in self._slots(jobs[number]):
                found[number] += (slot.bits & wanted.get(slot.node, 0)).bit_count()
        return self._largest_holders(found)

    def _in_pool(self, quantity: Quantity) -> tuple[Holder, ...]:
        """Return the holders of the type in the pool that binds."""
        key = (quantity.pool, quantity.device_type, quantity.user)
        if key not in self._inside:
            self._inside[key] = self._find_in_pool(quantity)
        return self._inside[key]

    def _find_in_pool(self, quantity: Quantity) -> tuple[Holder, ...]:
        around, kind = self._cycle.quotas.around, quantity.device_type
        leaves = (leaf for leaf in self._by_leaf if quantity.pool in around(leaf))
        states = [state for leaf in leaves for state in self._by_leaf[leaf]]
        inside = [(s, self._cycle.amounts(held)) for s in states if (held := self._slots(s))]
        if quantity.user:
            found = {s.number: n.total() for s, n in inside if s.job.user == quantity.user}
        else:
            found = {s.number: n[kind] for s, n in inside}
        return self._largest_holders(found)

    @cached_property
    def _by_leaf(self) -> dict[str, list[JobState]]:
        found: dict[str, list[JobState]] = {}
        for state in self._cycle.view.jobs.values():
            found.setdefault(state.job.pool, []).append(state)
        return found

    def _slots(self, state: JobState) -> tuple[Slot, ...]:
        """Return what the job will hold after this cycle's starts."""
        started = self._cycle.outcome.starts.get(state.number)
        return started.placement.slots if started else state.held()

    def _largest_holders(self, found: Mapping[int, int]) -> tuple[Holder, ...]:
        ranked = sorted((-devices, job) for job, devices in found.items() if devices)
        jobs = [(self._cycle.view.jobs[job].job, -less) for less, job in ranked[:HOLDERS]]
        return tuple(Holder(job.name, job.pool, devices, job.number) for job, devices in jobs)

    def _name(self, job: int) -> str:
        return self._cycle.view.jobs[job].job.name


_QUOTAS = (
    Code.WAITING_LIMIT,
    Code.WAITING_USER_LIMIT,
    Code.WAITING_RESERVATION,
    Code.WAITING_QUOTA,
)
_LIMITS = (Code.WAITING_LIMIT, Code.WAITING_USER_LIMIT)
_ALL = -1
"""The bitmap of every device a node can have."""
