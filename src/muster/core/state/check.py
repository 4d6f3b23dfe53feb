"""Invariants of every set of decisions. Checked in every test and every cycle.

Each is a sentence; the first that is broken is raised.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import compress, repeat
from operator import attrgetter, is_

from muster.core.cycle.cycle import Decisions
from muster.core.cycle.options import Option, options
from muster.core.quotas.demand import held_by_type
from muster.model.cluster import NodeState
from muster.model.decision import Decision, Kind
from muster.model.job import Job
from muster.model.placement import Placement, Slot
from muster.model.topology import Level
from muster.model.view import JobState, Phase, View
from muster.perf.predict import Predictor
from muster.perf.slowdown import Reach, reach, widest_within
from muster.place.contract import spanned


class BrokenInvariantError(AssertionError):
    """A decision that must never be made."""


def check(view: View, decided: Decisions) -> None:
    """Raise if the decisions break an invariant on this view."""
    _expect(decided.version == view.version, "decisions are applied to the view they were made on")
    _every_job_is_decided_once(view, decided)
    reaches: Reaches = {}
    for decision in decided.decisions:
        _check_decision(view, decision, reaches)
    _nothing_is_held_twice(view, decided)
    _limits_and_reservations_hold(view, decided)
    _user_limits_hold(view, decided)


_PHASE = attrgetter("phase")
_PREEMPTIBLE = attrgetter("job.preemptible")
"""Called for every job in every cycle, where an `attrgetter` is fastest."""


def _expect(held: bool, sentence: str) -> None:
    if not held:
        raise BrokenInvariantError(sentence)


def _every_job_is_decided_once(view: View, decided: Decisions) -> None:
    numbers = {decision.job for decision in decided.decisions}
    _expect(len(numbers) == len(decided.decisions), "no job gets two decisions")
    _expect(numbers <= view.jobs.keys(), "decisions are about jobs of the view")
    waits = map(is_, map(_PHASE, view.jobs.values()), repeat(Phase.WAITING))
    _expect(
        numbers.issuperset(compress(view.jobs, waits)), "every waiting job is started or keeps waiting"
    )


_PHASES = {
    Kind.START: (Phase.WAITING,),
    Kind.WAIT: (Phase.WAITING,),
    Kind.RESIZE: (Phase.RUNNING,),
    Kind.MIGRATE: (Phase.RUNNING,),
    Kind.PREEMPT: (Phase.RUNNING, Phase.STARTING),
    Kind.REPLAN: (Phase.RUNNING,),
}
"""Phases in which each kind of decision is allowed."""


def _check_decision(view: View, decision: Decision, reaches: "Reaches") -> None:
    state = view.jobs[decision.job]
    if state.phase not in _PHASES[decision.kind]:
        raise BrokenInvariantError(f"job {state.number}: {decision.kind} suits the phase {state.phase}")
    changes = decision.kind in (Kind.START, Kind.RESIZE, Kind.MIGRATE)
    _expect(changes == (decision.placement is not None), "a placement comes with every change")
    _expect(decision.generation == state.generation + changes, "each change is one generation")
    if decision.kind is Kind.PREEMPT:
        may = state.job.preemptible or _must_leave(view, state)
        _expect(
            may, f"job {state.number}: only preemptible jobs are preempted, but for a node's deadline"
        )
    if decision.placement is not None:
        lent = decision.kind is Kind.RESIZE and state.job.mixes
        _check_placement(view, state.job, decision.placement, reaches, lent=lent)


def _must_leave(view: View, state: JobState) -> bool:
    """Whether one of its nodes must be empty by some time."""
    return any(view.cluster.node(slot.node).until is not None for slot in state.held())


def _check_placement(
    view: View, job: Job, placement: Placement, reaches: "Reaches", *, lent: bool
) -> None:
    """`lent`: whether devices of other generations may have been lent to it."""
    for spec in job.roles:
        count = placement.count(spec.role)
        _expect(
            count >= spec.gang, f"job {job.number}: a gang is whole or absent ({spec.role} {count})"
        )
        _expect(count <= spec.most, f"job {job.number}: no role has more than its most")
    keys = [(slot.role, slot.index) for slot in placement.slots]
    _expect(len(keys) == len(set(keys)), f"job {job.number}: each task has one place")
    needs = {spec.role: spec.need for spec in job.roles}
    for slot in placement.slots:
        right = slot.need == needs[slot.role] and slot.bits.bit_count() == slot.need.devices
        _expect(right, f"job {job.number}: each task has just the devices it needs")
    kinds = {view.cluster.node(s.node).configuration for s in placement.slots if s.bits}
    every = options(job, view.cluster)
    if lent:
        every = (*every, tuple(dict.fromkeys(name for option in every for name in option)))
    mine = [o for o in every if kinds <= set(o)]
    _expect(bool(mine), f"job {job.number}: devices are of allowed types, one generation if so asked")
    span = spanned(view.cluster, placement)
    kept = any(span <= _widest(view, job, placement.devices, option, reaches) for option in mine)
    _expect(kept, f"job {job.number}: a contract is never broken")


Reaches = dict[tuple[Option, int], Reach]
"""What sets offer to gangs of a size: worked out once for all decisions on a view."""


def _widest(view: View, job: Job, devices: int, option: Option, reaches: Reaches) -> Level:
    """Return the widest level the contract allows, against the best placement on these sets."""
    if job.locality.max_slowdown is None:
        return job.locality.widest
    found = reaches.get((option, devices))
    if found is None:
        sets = tuple(view.cluster.configurations[name] for name in option)
        found = reaches[option, devices] = reach(view.cluster, sets, devices)
    return widest_within(job, devices, found, Predictor(view.cluster))


def _taken(view: View, decision: Decision) -> Iterator[Slot]:
    """Return the slots a decision takes that the job does not hold yet."""
    held = set(view.jobs[decision.job].held())
    slots = decision.placement.slots if decision.placement else ()
    return (slot for slot in slots if slot not in held)


def _nothing_is_held_twice(view: View, decided: Decisions) -> None:
    free: dict[str, int] = {}
    cores: dict[str, int] = {}
    memory: dict[str, int] = {}
    for decision in [d for d in decided.decisions if d.placement is not None]:
        for slot in _taken(view, decision):
            node = view.cluster.node(slot.node)
            _expect(node.state is NodeState.UP, f"job {decision.job}: tasks go to nodes that are up")
            there = free.setdefault(slot.node, node.free)
            _expect(slot.bits & ~there == 0, f"job {decision.job}: no device is held twice")
            free[slot.node] = there & ~slot.bits
            cores[slot.node] = cores.get(slot.node, node.millicores) - slot.need.millicores
            memory[slot.node] = memory.get(slot.node, node.memory) - slot.need.memory
    _expect(min(cores.values(), default=0) >= 0, "no core is held twice")
    _expect(min(memory.values(), default=0) >= 0, "no memory is held twice")


def _limits_and_reservations_hold(view: View, decided: Decisions) -> None:
    placed = {d.job: d.placement for d in decided.decisions if d.placement is not None}
    used: Counter[tuple[str, str]] = Counter()
    fixed: Counter[tuple[str, str]] = Counter()
    had: Counter[tuple[str, str]] = Counter()
    had_fixed: Counter[tuple[str, str]] = Counter()
    """What both were before: a limit or reservation may have been set below what is in use."""
    limited = _below_a_limit(view)
    states = view.jobs.values()
    if not limited and all(map(_PREEMPTIBLE, states)):
        return
    for state in [s for s in states if not s.job.preemptible or s.job.pool in limited]:
        before = _most_held(view, state, None)
        for device_type, count in _most_held(view, state, placed.get(state.number)).items():
            for pool in view.pools.ancestry(state.job.pool):
                used[pool, device_type] += count
                had[pool, device_type] += before[device_type]
            if not state.job.preemptible:
                fixed[state.job.pool, device_type] += count
                had_fixed[state.job.pool, device_type] += before[device_type]
    for (pool, device_type), count in used.items():
        limit = view.pools.pools[pool].quota(device_type).limit
        fine = limit is None or count <= max(limit, had[pool, device_type])
        _expect(fine, f"{pool}: no pool is above its limit")
    for (pool, device_type), count in fixed.items():
        reservation = view.pools.pools[pool].quota(device_type).reservation
        fine = count <= max(reservation, had_fixed[pool, device_type])
        _expect(fine, f"{pool}: what is not preemptible stays within the reservation")


def _user_limits_hold(view: View, decided: Decisions) -> None:
    """No user gets more in a pool than it gives each; a lower limit takes nothing from them."""
    capped = view.pools.capped()
    placed = {d.job: d.placement for d in decided.decisions if d.placement is not None}
    if not capped or not placed:
        return
    before: Counter[tuple[str, str]] = Counter()
    after: Counter[tuple[str, str]] = Counter()
    for state in view.jobs.values():
        for pool in capped.intersection(view.pools.ancestry(state.job.pool)):
            key = (pool, state.job.user)
            before[key] += _most_held(view, state, None).total()
            after[key] += _most_held(view, state, placed.get(state.number)).total()
    for (pool, user), count in after.items():
        most = view.pools.pools[pool].devices_per_user or 0
        fine = count <= max(most, before[pool, user])
        _expect(fine, f"{pool}: no user gets more devices than it gives each")


def _below_a_limit(view: View) -> set[str]:
    """Return the leaf pools under some limit."""
    pools = view.pools.pools
    limited = {n for n, p in pools.items() if any(q.limit is not None for q in p.quotas.values())}
    if not limited:
        return limited
    return {leaf for leaf in view.pools.leaves() if not limited.isdisjoint(view.pools.ancestry(leaf))}


def _most_held(view: View, state: JobState, placed: Placement | None) -> Counter[str]:
    """Return devices by type, during a change the larger of before and after: a migration holds
    both only for a moment."""
    most: Counter[str] = Counter()
    for placement in (state.placement, state.target, placed):
        if placement is not None:
            most |= held_by_type(view.cluster, placement.slots)
    return most
