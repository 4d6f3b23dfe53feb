"""Job files: what is asked. See docs/files.md."""

from pathlib import Path
from typing import Any

from muster.files.errors import FieldError, Loc
from muster.files.job_entries import LEVELS, JobEntry, RoleEntry, RolesEntry
from muster.files.profile_file import UnknownProfileError, named_profile
from muster.files.quantity import Counts, Devices, parse_name
from muster.files.validation import schema_of, validated
from muster.files.yaml_source import read_source
from muster.model.job import Job, Locality, Need, Role, RoleSpec, StepProfile
from muster.model.profile import ModelProfile
from muster.model.topology import MAX_DEVICES

_ONE = Devices(None, Counts(1, 1))
_NONE = Devices(None, Counts(0, 0))
_SHORTHAND = ("devices", "gang", "cores", "memory")


def load_job(path: Path) -> Job:
    """The job of a file; raises InputError, one line, for anything wrong."""
    source = read_source(path)
    entry = validated(JobEntry, source)
    try:
        return _job(entry, path)
    except FieldError as error:
        raise source.error(error.loc, error.problem) from None


def job_schema() -> dict[str, Any]:
    """The JSON Schema of job files."""
    return schema_of(JobEntry, "Muster job file")


def _job(entry: JobEntry, path: Path) -> Job:
    roles = _roles(entry)
    return Job(
        name=entry.name or _file_name(path),
        command=entry.command,
        user=entry.user,
        pool=entry.pool,
        priority=entry.priority,
        preemptible=entry.preemptible,
        roles=roles,
        device_types=_device_types(entry, roles),
        same_generation=entry.same_generation,
        locality=Locality(LEVELS[entry.locality.widest], entry.locality.max_slowdown),
        profile=StepProfile(entry.step.compute, float(entry.step.gradients)) if entry.step else None,
        duration=entry.duration,
        pause=entry.pause,
        model=_model(entry.model, path.parent) if entry.model is not None else None,
        batch=_batch(entry.batch, roles),
    )


def _model(text: str, folder: Path) -> ModelProfile:
    """A shipped profile, or one of a file; what is wrong inside that file is told of that file."""
    try:
        return named_profile(text, folder)
    except UnknownProfileError as error:
        raise FieldError(("model",), str(error)) from None


def _batch(batch: int | None, roles: tuple[RoleSpec, ...]) -> int | None:
    gang = roles[0].gang
    if batch is not None and batch < gang:
        problem = f"must be at least the gang, {gang}, not {batch}: every worker takes a sample"
        raise FieldError(("batch",), problem)
    return batch


def _file_name(path: Path) -> str:
    try:
        return parse_name(path.stem)
    except ValueError:
        problem = "is missing, and the file's own name is not one; write for example resnet50"
        raise FieldError(("name",), problem) from None


def _roles(entry: JobEntry) -> tuple[RoleSpec, ...]:
    if entry.roles is None:
        return (_shorthand_worker(entry),)
    for field in _SHORTHAND:
        if field in entry.model_fields_set:
            raise FieldError((field,), "is given beside roles; write it under the role it is for")
    found = [_role(Role.WORKER, entry.roles.worker)]
    if entry.roles.server is not None:
        found.append(_role(Role.SERVER, entry.roles.server))
    return tuple(found)


def _shorthand_worker(entry: JobEntry) -> RoleSpec:
    """Workers of one device each; with `devices: 0` one worker without any."""
    counts = (entry.devices or _ONE).counts
    on_cpu = counts.most == 0
    if counts.least == 0 and not on_cpu:
        problem = f"starts at 0; write for example 1..{counts.most}"
        raise FieldError(("devices",), problem)
    need = Need(0 if on_cpu else 1, entry.cores, entry.memory)
    _refuse_empty(need, ("devices",))
    return _spec(Role.WORKER, need, Counts(1, 1) if on_cpu else counts, entry.gang, ())


def _role(role: Role, entry: RoleEntry) -> RoleSpec:
    loc: Loc = ("roles", role.value)
    devices = entry.devices or (_ONE if role is Role.WORKER else _NONE)
    need = Need(_per_task(devices, (*loc, "devices")), entry.cores, entry.memory)
    if entry.count.least == 0:
        raise FieldError((*loc, "count"), "starts at 0; the least is 1")
    _refuse_empty(need, loc)
    return _spec(role, need, entry.count, entry.gang, loc)


def _per_task(devices: Devices, loc: Loc) -> int:
    if devices.counts.least != devices.counts.most:
        raise FieldError(loc, "is a range; a task has so many devices, its role a count: 1..8")
    if devices.counts.most > MAX_DEVICES:
        problem = f"a task sits on one node, which has at most {MAX_DEVICES} devices"
        raise FieldError(loc, f"{problem}; write count: {devices.counts.most} and devices: 1")
    return devices.counts.most


def _refuse_empty(need: Need, loc: Loc) -> None:
    if need == Need():
        raise FieldError(loc, "without devices a task must ask for cores or memory, such as cores: 4")


def _spec(role: Role, need: Need, counts: Counts, gang: int | None, loc: Loc) -> RoleSpec:
    if gang is not None and gang > counts.least:
        problem = f"must be at most the least count, {counts.least}, not {gang}"
        raise FieldError((*loc, "gang"), problem)
    return RoleSpec(role, need, gang or counts.least, counts.least, counts.most)


def _device_types(entry: JobEntry, roles: tuple[RoleSpec, ...]) -> tuple[str, ...]:
    """The types a job allows: of `any_of`, or the one named beside a count."""
    named = _named_types(entry)
    types = tuple(dict.fromkeys(named.values()))
    if len(types) > 1:
        problem = f"names {types[1]}, but {types[0]} is named elsewhere; list both under any_of"
        raise FieldError(list(named)[-1], problem)
    if entry.any_of is None:
        return types
    _refuse_bad_choice(entry.any_of, types, roles)
    return tuple(entry.any_of)


def _named_types(entry: JobEntry) -> dict[Loc, str]:
    written: dict[Loc, Devices | None] = {("devices",): entry.devices, **_of_roles(entry.roles)}
    return {
        loc: devices.device_type
        for loc, devices in written.items()
        if devices is not None and devices.device_type is not None
    }


def _of_roles(roles: RolesEntry | None) -> dict[Loc, Devices | None]:
    if roles is None:
        return {}
    found: dict[Loc, Devices | None] = {("roles", "worker", "devices"): roles.worker.devices}
    if roles.server is not None:
        found["roles", "server", "devices"] = roles.server.devices
    return found


def _refuse_bad_choice(any_of: list[str], types: tuple[str, ...], roles: tuple[RoleSpec, ...]) -> None:
    if not any_of:
        raise FieldError(("any_of",), "names no device type; leave it out to allow any")
    for position, name in enumerate(any_of):
        if name in any_of[:position]:
            raise FieldError(("any_of", position), f"'{name}' is given twice")
    if types and any_of != list(types):
        raise FieldError(("any_of",), f"contradicts {types[0]} beside the devices; keep one of them")
    if not any(spec.need.devices for spec in roles):
        raise FieldError(("any_of",), "is given for a job without devices")
