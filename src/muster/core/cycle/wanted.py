"""Where a steering policy wants a job."""

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.options import Option
from muster.model.job import Job
from muster.model.view import JobState
from muster.policy.base import Allocation


def options_for(cycle: CycleState, job: Job, allocation: Allocation) -> list[Option]:
    """Return the job's options, of the type the policy wants if it names one."""
    every = list(dict.fromkeys((*cycle.options.of(job), *cycle.options.pure(job))))
    wanted = _wanted(cycle, job, allocation)
    return every if wanted is None else [o for o in every if cycle.options.types(o) in ((wanted,), ())]


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


def elsewhere(cycle: CycleState, state: JobState, allocation: Allocation) -> bool:
    """Whether the policy wants the job on another device type."""
    assert state.placement is not None
    if allocation.device_type is None:
        return False
    held = cycle.amounts(state.placement.slots)
    if not held or allocation.device_type in held:
        return False
    return _wanted(cycle, state.job, allocation) is not None
