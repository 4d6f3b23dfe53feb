"""The smallest change of a request with which a job would start.

Admission tries it on the empty cluster, an explanation on the current one. Changes come in the order of
what they cost the user: a wider contract (level by level), no bound on the slowdown, another device
type, becoming preemptible, fewer cores or less memory, fewer workers, fewer devices per worker.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from muster.model.job import Job, Role, RoleSpec
from muster.model.reason import RequestChange
from muster.model.topology import Level

Starts = Callable[[Job, int], bool]
"""Whether a job would start with this number of workers."""
Search = Callable[[Job, int, Starts], RequestChange | None]

_HALF_CORE, _GB = 500, 10**9
"""Step sizes of the search for a smaller need: millicores, bytes."""


def smallest_change(
    job: Job, workers: int, types: tuple[str, ...], starts: Starts, *, lean: bool
) -> RequestChange | None:
    """Return the first change that would do; `lean`: try fewer cores and less memory too."""
    for change, changed in wider(job, types):
        if starts(changed, workers):
            return change
    searches: list[Search] = [_fewer_cores, _less_memory] if lean else []
    searches += [_fewer_workers, _fewer_devices_each]
    found = (search(job, workers, starts) for search in searches)
    return next((change for change in found if change is not None), None)


def largest(below: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number below this for which it fits; 0: none."""
    low, high = 0, below - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def with_workers(job: Job, workers: int) -> Job:
    """Return the job with exactly this number of workers."""
    return _with(job, replace(job.workers, gang=workers, least=workers, most=workers))


def with_spread(job: Job, workers: int) -> Job:
    """Return the job with a smaller gang; an elastic one may still grow to its most."""
    spec = replace(job.workers, gang=workers, least=workers)
    return _with(job, spec if job.elastic else replace(spec, most=workers))


def thinner(job: Job) -> Iterator[tuple[RequestChange, Job]]:
    """Yield the job with half the devices of each worker, again and again."""
    devices = job.workers.need.devices // 2
    while devices:
        change = RequestChange("devices per worker", str(devices))
        yield change, with_need(job, Role.WORKER, devices=devices)
        devices //= 2


def leaner(job: Job) -> Iterator[tuple[RequestChange, Job]]:
    """Yield the job with half the cores, and half the memory, of each worker."""
    cores = job.workers.need.millicores // (2 * _HALF_CORE)
    if cores:
        change = RequestChange("cores", f"{cores * _HALF_CORE / 1000:g}")
        yield change, with_need(job, Role.WORKER, millicores=cores * _HALF_CORE)
    memory = job.workers.need.memory // (2 * _GB)
    if memory:
        yield RequestChange("memory", f"{memory}GB"), with_need(job, Role.WORKER, memory=memory * _GB)


def with_need(job: Job, role: Role, **need: int) -> Job:
    """Return the job with another need of each task of a role."""
    spec = next(spec for spec in job.roles if spec.role is role)
    return _with(job, replace(spec, need=replace(spec.need, **need)))


def _with(job: Job, spec: RoleSpec) -> Job:
    return replace(job, roles=tuple(spec if s.role is spec.role else s for s in job.roles))


def wider(job: Job, types: tuple[str, ...]) -> Iterator[tuple[RequestChange, Job]]:
    """Yield the job with the same request, but fewer conditions."""
    for level in Level:
        if level > job.locality.widest:
            locality = replace(job.locality, widest=level)
            yield RequestChange("locality", level.word), replace(job, locality=locality)
    if job.locality.max_slowdown is not None:
        locality = replace(job.locality, max_slowdown=None)
        yield RequestChange("max_slowdown", "none"), replace(job, locality=locality)
    for device_type in types:
        if job.device_types and device_type not in job.device_types:
            allowed = (*job.device_types, device_type)
            yield RequestChange("any_of", device_type), replace(job, device_types=allowed)
    if not job.preemptible:
        yield RequestChange("preemptible", "true"), replace(job, preemptible=True)


def _fewer_cores(job: Job, workers: int, starts: Starts) -> RequestChange | None:
    found = _leaner(job, workers, starts, "millicores", _HALF_CORE)
    return found and RequestChange(_field(found[0], "cores"), f"{found[1] * _HALF_CORE / 1000:g}")


def _less_memory(job: Job, workers: int, starts: Starts) -> RequestChange | None:
    found = _leaner(job, workers, starts, "memory", _GB)
    return found and RequestChange(_field(found[0], "memory"), f"{found[1]}GB")


def _leaner(job: Job, workers: int, starts: Starts, field: str, step: int) -> tuple[Role, int] | None:
    """Return the role, and the most steps of a smaller need of its tasks, that would start."""
    for spec in job.roles:

        def fits(n: int, role: Role = spec.role) -> bool:
            return starts(with_need(job, role, **{field: n * step}), workers)

        if most := largest(-(-getattr(spec.need, field) // step), fits):
            return spec.role, most
    return None


def _field(role: Role, field: str) -> str:
    return field if role is Role.WORKER else f"{role} {field}"


def _fewer_workers(job: Job, workers: int, starts: Starts) -> RequestChange | None:
    fewer = largest(workers, lambda n: starts(with_workers(job, n), n))
    if not fewer:
        return None
    return RequestChange("devices" if job.workers.need.devices == 1 else "workers", str(fewer))


def _fewer_devices_each(job: Job, workers: int, starts: Starts) -> RequestChange | None:
    own = job.workers.need.devices
    fewer = largest(own, lambda n: starts(with_need(job, Role.WORKER, devices=n), workers))
    return RequestChange("devices per worker", str(fewer)) if fewer else None
