"""How many tasks of each role: the policy says how many workers, the servers follow."""

from muster.model.job import Job, Role, RoleSpec
from muster.model.plan import Part, Plan


def plan_for(job: Job, workers: int) -> Plan:
    """The plan for so many workers; other roles grow in step with them between gang and most."""
    parts = [Part(spec.role, _count(job, spec, workers), spec.need) for spec in job.roles]
    return Plan(tuple(part for part in parts if part.count))


def _count(job: Job, spec: RoleSpec, workers: int) -> int:
    if spec.role is Role.WORKER:
        return workers
    range_of_workers = job.workers.most - job.workers.gang
    if not range_of_workers:
        return spec.least
    # With fewer workers than the gang (asked by what explains, never placed) a gang of servers stays.
    part = max(0, workers - job.workers.gang) / range_of_workers
    return spec.gang + round(part * (spec.most - spec.gang))
