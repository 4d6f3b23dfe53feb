"""Where a steering policy wants a job."""

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.options import Option
from muster.model.job import Job, Role
from muster.model.placement import Placement
from muster.model.view import JobState, Phase
from muster.policy.base import Allocation
from muster.policy.room import is_scattered


def options_for(cycle: CycleState, job: Job, allocation: Allocation) -> list[Option]:
    """Return the job's options, of the type the policy wants if it names one."""
    key = (job.number, allocation.device_type)
    found = cycle.wanted.get(key)
    if found is None:
        found = cycle.wanted[key] = _options_for(cycle, job, allocation)
    return found


def _options_for(cycle: CycleState, job: Job, allocation: Allocation) -> list[Option]:
    every = list(dict.fromkeys((*cycle.options.of(job), *cycle.options.pure(job))))
    there = [o for o in every if cycle.options.types(o) in ((allocation.device_type,), ())]
    if len(there) == len(every):  # most clusters have one type
        return every
    return every if _wanted(cycle, job, allocation) is None else there


def _wanted(cycle: CycleState, job: Job, allocation: Allocation) -> str | None:
    """Return the device type the policy names, unless the gang could never be placed there: policies do
    not know contracts."""
    wanted = allocation.device_type
    if wanted is None:
        return None
    gangs = (
        cycle.options.request(job, job.workers.gang, option)
        for option in cycle.options.pure(job)
        if cycle.options.types(option) in ((wanted,), ())
    )
    return wanted if any(cycle.options.holds(gang) for gang in gangs) else None


def has_all(cycle: CycleState, state: JobState, allocation: Allocation) -> bool:
    """Whether a running job of one role has just what the policy wants: most have, in most cycles."""
    placed = state.placement
    if state.phase is not Phase.RUNNING or placed is None or len(state.job.roles) > 1:
        return False
    if placed.count(Role.WORKER) != allocation.most or allocation.batch != state.batch:
        return False
    if allocation.device_type is None or not placed.slots[0].bits:
        return True
    cluster = cycle.view.cluster
    if len(cluster.configurations) == 1:
        (kind,) = cluster.configurations.values()
        return kind.device_type == allocation.device_type
    if state.job.mixes:
        return False  # it may have devices of several types, or be lent some
    kind = cluster.configuration_of(cluster.node(placed.slots[0].node))
    return kind.device_type == allocation.device_type


def is_unmet(cycle: CycleState) -> bool:
    """Whether somebody may take more than this cycle could give: a job that has less than its policy
    wants, any gang that waits where pools lend or jobs queue, or, while nobody waits, who is next to be
    tried with idle devices."""
    jobs = cycle.view.jobs
    if cycle.queued or len(cycle.view.pools.pools) > 1 or not cycle.standing.waiting:
        return True
    return not all(_gets_all(cycle, jobs[number], each) for number, each in cycle.steered.items())


def _gets_all(cycle: CycleState, state: JobState, allocation: Allocation) -> bool:
    """Whether a job has what the policy wants, or will have by this cycle's decisions."""
    outcome, number = cycle.outcome, state.number
    change = outcome.starts.get(number) or outcome.resizes.get(number)
    if change is not None:
        enough = change.placement.count(Role.WORKER) >= allocation.most
        return enough and not (_is_certain(cycle, number) and _scattered(cycle, change.placement))
    if not allocation.most or number in outcome.moves:
        return number not in outcome.moves
    return number not in outcome.stops and has_all(cycle, state, allocation)


def _is_certain(cycle: CycleState, number: int) -> bool:
    """Whether the job's speed is known wherever it is; what is learnt must be measured there first."""
    outlook = cycle.view.outlooks.get(number)
    return outlook is not None and not outlook.spread


def _scattered(cycle: CycleState, placement: Placement) -> bool:
    """Whether a job is on more nodes than it needs: slower than its policy expected, it may now have
    too many."""
    types = cycle.amounts(placement.slots)
    return bool(types) and all(is_scattered(cycle.view, placement, each) for each in types)


def elsewhere(cycle: CycleState, state: JobState, allocation: Allocation) -> bool:
    """Whether the policy wants the job on another device type."""
    assert state.placement is not None
    if allocation.device_type is None or len(cycle.view.cluster.configurations) == 1:
        return False
    held = cycle.amounts(state.placement.slots)
    if not held or allocation.device_type in held:
        return False
    return _wanted(cycle, state.job, allocation) is not None
