"""Tasks of each role: the policy decides the workers, the servers follow."""

from muster.model.job import Job, Role, RoleSpec
from muster.model.placement import Placement
from muster.model.plan import Part, Plan


def plan_for(job: Job, workers: int, servers: int | None = None) -> Plan:
    """Return the plan for a number of workers; servers, if not given, grow with them."""
    parts = [Part(spec.role, _count(job, spec, workers, servers), spec.need) for spec in job.roles]
    return Plan(tuple(part for part in parts if part.count))


def devices_for(job: Job, workers: int) -> int:
    """Return the devices of the plan for a number of workers: most jobs have workers alone."""
    if len(job.roles) == 1:
        return workers * job.workers.need.devices
    return plan_for(job, workers).devices


def missing(goal: Plan, placed: Placement) -> Plan:
    """Return the tasks of the plan that a placement lacks."""
    counts = [(part, part.count - placed.count(part.role)) for part in goal.parts]
    return Plan(tuple([Part(part.role, count, part.need) for part, count in counts if count > 0]))


def _count(job: Job, spec: RoleSpec, workers: int, servers: int | None) -> int:
    if spec.role is Role.WORKER:
        return workers
    if servers is not None:
        return servers
    if spec.optional:
        return 0  # the cycle adds them where they help, see `core/cycle/steering/staff_servers.py`
    range_of_workers = job.workers.most - job.workers.gang
    if not range_of_workers:
        return spec.least
    # Below the gang of workers (asked to explain, never placed) the gang of servers stays.
    part = max(0, workers - job.workers.gang) / range_of_workers
    return spec.gang + round(part * (spec.most - spec.gang))
