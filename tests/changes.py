"""A user who takes advice: the job with the change that a reason or a refusal named."""

from dataclasses import replace

from muster.core.why.variants import with_need, with_workers
from muster.model.job import Job, Role
from muster.model.reason import RequestChange
from muster.model.topology import Level

GB = 10**9
LEVELS = {level.word: level for level in Level}


def with_most(job: Job, most: int) -> Job:
    """The job with up to this many workers."""
    spec = replace(job.workers, most=most)
    return replace(job, roles=tuple(spec if each.role is Role.WORKER else each for each in job.roles))


def changed(job: Job, change: RequestChange) -> Job:  # noqa: PLR0911
    """The job with one field set to its new value."""
    role = Role.SERVER if change.field.startswith("server ") else Role.WORKER
    match change.field.removeprefix("server "):
        case "locality":
            return replace(job, locality=replace(job.locality, widest=LEVELS[change.value]))
        case "max_slowdown":
            return replace(job, locality=replace(job.locality, max_slowdown=None))
        case "any_of":
            return replace(job, device_types=(*job.device_types, change.value))
        case "preemptible":
            return replace(job, preemptible=True)
        case "pool":
            return replace(job, pool=change.value)
        case "devices" | "workers":
            least, _, most = change.value.partition("..")
            one = with_workers(job, int(least))
            return with_most(one, int(most)) if most else one
        case "devices per worker":
            return with_need(job, role, devices=int(change.value))
        case "cores":
            return with_need(job, role, millicores=round(float(change.value) * 1000))
        case "memory":
            return with_need(job, role, memory=int(change.value.removesuffix("GB")) * GB)
        case field:
            raise AssertionError(f"nobody knows how to change {field!r}")
