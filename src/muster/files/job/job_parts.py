"""The parts of a job, from its entry: tasks, device types, model, program."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from muster.files.errors import FieldError, Loc, repeated, shown
from muster.files.job.job_entries import ContainerEntry, JobEntry, OriginEntry, RoleEntry
from muster.files.profile.profile_entries import ProfileEntry
from muster.files.profile.profile_file import (
    UnknownProfileError,
    is_path,
    named_profile,
    profile_in,
    profile_of_data,
    read_profile,
)
from muster.files.source.faults import first_of
from muster.files.source.quantity import Counts, Devices
from muster.files.source.validation import faults_of
from muster.files.source.yaml_source import Source, source_of
from muster.model.happening import USUAL
from muster.model.job import Container, Need, Origin, Program, Role, RoleSpec
from muster.model.profile import ModelProfile
from muster.model.topology import MAX_DEVICES

HANG_UP, HANG_UP_GRACE = "SIGHUP", 5.0
"""What a terminal sends when it is closed: shells end by it, and ignore SIGTERM. And s before that."""
_ONE = Devices(None, Counts(1, 1))
_NONE = Devices(None, Counts(0, 0))
_LEAST_MEMORY = 1_000_000
"""Bytes with which a shell starts, and with a quarter of which it is killed."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
_SHORTHAND = ("devices", "gang", "cores", "memory")


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """The files of a job that outlive its tasks."""

    ship: str
    checkpoint: str
    container: Container | None = None


def program_of(entry: JobEntry, folder: str, resume_from: str, kept: KeptFiles) -> Program:
    """Return how the command is run, without variables that are still to be given."""
    return Program(
        folder=folder,
        environ=tuple((name, text) for name, text in entry.env.items() if text is not None),
        shell=entry.shell,
        grace=entry.grace,
        checkpoint_signal=entry.checkpoint_signal or (None if entry.interactive is None else HANG_UP),
        checkpoint_grace=_checkpoint_grace(entry),
        failures=entry.failures,
        losses=entry.losses,
        sync=entry.sync,
        owners=entry.owners,
        time=entry.time,
        warn=entry.warn.seconds,
        warn_signal=entry.warn.signal,
        origin=_origin(entry.origin),
        resume_from=resume_from,
        ship=kept.ship,
        checkpoint=kept.checkpoint,
        at_most_once=entry.at_most_once,
        finish_grace=entry.finish_grace,
        until=entry.until or "",
        interactive=entry.interactive,
        container=kept.container,
        notify=entry.notify or "",
        notify_on=notify_on_of(entry),
        slurm_env=entry.slurm_env,
    )


def _checkpoint_grace(entry: JobEntry) -> float:
    """As stated; a terminal's programs end at once when it hangs up, or do not care."""
    stated = "checkpoint_grace" in entry.model_fields_set
    return entry.checkpoint_grace if stated or entry.interactive is None else HANG_UP_GRACE


def notify_on_of(entry: JobEntry) -> tuple[str, ...]:
    """Return what the job's webhook is told of; the usual if nothing is said."""
    if entry.notify is None:
        if entry.notify_on is not None:
            raise FieldError(("notify_on",), "needs a webhook to tell: give notify, too")
        return ()
    if entry.notify_on == []:
        raise FieldError(("notify_on",), "names nothing; leave it out for succeeded and failed")
    return tuple(entry.notify_on or USUAL)


def kept_files(entry: JobEntry, base: Path | None) -> KeptFiles:
    """Return the digest of what is shipped, and where checkpoints go.

    A path that a file ships is not in the job: only its pack is.
    """
    ship = entry.ship or ""
    if base is None and ship and not _DIGEST.fullmatch(ship):
        problem = "must be the digest of a pack; muster run and the Python client pack a folder"
        raise FieldError(("ship",), problem)
    checkpoint = _checkpoint(entry.checkpoint or "", base)
    return KeptFiles(ship if base is None else "", checkpoint, _container(entry.container, base))


def _container(entry: ContainerEntry | None, base: Path | None) -> Container | None:
    if entry is None:
        return None
    image = entry.image
    if image.startswith("."):
        if base is None:
            problem = f"must be absolute or the name of an image, not {shown(image)}"
            raise FieldError(("container", "image"), problem)
        image = str((base / image).resolve())
    return Container(image, entry.engine)


def _checkpoint(text: str, base: Path | None) -> str:
    if not text or _URL.match(text):
        return text
    if base is None and not Path(text).is_absolute():
        problem = f"must be a URL or an absolute path, not {shown(text)}"
        raise FieldError(("checkpoint",), problem)
    return str(base / text) if base is not None else text


def _origin(entry: OriginEntry) -> Origin:
    environ = tuple((name, text) for name, text in entry.env.items() if text is not None)
    return Origin(environ, entry.executable or "", entry.host or "")


def folder_of(text: str | None, base: Path | None, *, shipped: bool = False) -> str:
    """Return the working directory, absolute; in a file it is relative to the file's folder, in a
    request that ships one to that."""
    if text is None:
        return ""
    if base is None and shipped:
        return _inside(text)
    if base is None and not Path(text).is_absolute():
        problem = f"must be an absolute path, not {shown(text)}; write for example /home/ada/train"
        raise FieldError(("folder",), problem)
    return str(base / text) if base is not None else text


def _inside(text: str) -> str:
    """Return a folder of the shipped one."""
    if Path(text).is_absolute() or ".." in Path(text).parts:
        problem = f"must be in the folder that is shipped, not {shown(text)}; write for example src"
        raise FieldError(("folder",), problem)
    return text


def resume_of(text: str | None, base: Path | None) -> str:
    """Return a job, a URL or an absolute path: what has a slash is a path, relative to the file's
    folder."""
    if text is None or "/" not in text or _URL.match(text):
        return text or ""
    if base is None and not Path(text).is_absolute():
        problem = f"must be a job or an absolute path, not {shown(text)}"
        raise FieldError(("resume_from",), problem)
    return str(base / text) if base is not None else text


def profile_source(model: str | dict[str, Any] | None, base: Path) -> Source | None:
    """Read the profile file that a job file names; None if it names none, or none that is there."""
    if not isinstance(model, str) or not is_path(model):
        return None
    try:
        return read_profile(model, base)
    except UnknownProfileError:
        return None


def model_of(
    model: str | dict[str, Any] | None, base: Path | None, profile: Source | None
) -> ModelProfile | None:
    """Return a shipped profile, that of a file, or the one that came along with the job."""
    if profile is not None:
        return profile_in(profile)
    if model is None:
        return None
    if isinstance(model, dict):
        return _brought(model)
    if base is None and is_path(model):
        problem = "is a path, which a request cannot use; write a shipped name or the profile itself"
        raise FieldError(("model",), problem)
    try:
        return named_profile(model, base or Path())
    except UnknownProfileError as error:
        raise FieldError(("model",), str(error)) from None


def _brought(data: dict[str, Any]) -> ModelProfile:
    try:
        return profile_of_data(data)
    except FieldError as error:
        raise error.below("model") from None
    except ValidationError as error:
        first = first_of(faults_of(ProfileEntry, error, source_of(data)))
    raise FieldError(("model", *first.loc), first.problem)


def batch_of(entry: JobEntry, roles: tuple[RoleSpec, ...]) -> int | None:
    """Return the samples of one step, at least one for each worker of the gang."""
    batch, gang = entry.batch.least if entry.batch else None, roles[0].gang
    if batch is not None and batch < gang:
        problem = f"must be at least the gang, {gang}, not {batch}: every worker needs a sample"
        raise FieldError(("batch",), problem)
    return batch


def largest_of(entry: JobEntry) -> int | None:
    """Return what the batch may grow to; None: it may not, or the script says."""
    batch = entry.batch
    return batch.most if batch is not None and batch.most > batch.least else None


def refuse_without_servers(entry: JobEntry) -> None:
    servers = entry.roles.server if entry.roles is not None else None
    if entry.sync == "dedicated" and servers is None:
        raise FieldError(("sync",), "dedicated needs servers; add roles.server")
    if entry.sync == "dedicated" and servers is not None and not servers.count.least:
        raise FieldError(("sync",), "dedicated needs servers; let roles.server.count start at 1")


def roles_of(entry: JobEntry) -> tuple[RoleSpec, ...]:
    """Return the requested tasks, workers first."""
    if entry.roles is None:
        return (_shorthand_worker(entry),)
    for field in _SHORTHAND:
        if field in entry.model_fields_set:
            raise FieldError((field,), "conflicts with roles; move it under its role")
    found = [_role(Role.WORKER, entry.roles.worker)]
    if entry.roles.server is not None:
        found.append(_role(Role.SERVER, entry.roles.server))
    return tuple(found)


def _shorthand_worker(entry: JobEntry) -> RoleSpec:
    """Return workers of one device each; with `devices: 0` one worker without any."""
    counts = (entry.devices or _ONE).counts
    on_cpu = counts.most == 0
    if counts.least == 0 and not on_cpu:
        problem = f"must start at 1; write for example 1..{counts.most}"
        raise FieldError(("devices",), problem)
    need = Need(0 if on_cpu else 1, entry.cores, entry.memory)
    _refuse_empty(need, ("devices",))
    _refuse_tiny(need, ())
    return _spec(Role.WORKER, need, Counts(1, 1) if on_cpu else counts, entry.gang, ())


def _role(role: Role, entry: RoleEntry) -> RoleSpec:
    loc: Loc = ("roles", role.value)
    devices = entry.devices or (_ONE if role is Role.WORKER else _NONE)
    need = Need(_per_task(devices, (*loc, "devices")), entry.cores, entry.memory)
    if entry.count.least == 0 and (role is Role.WORKER or entry.count.most == 0):
        raise FieldError((*loc, "count"), "must start at 1")
    _refuse_empty(need, loc)
    _refuse_tiny(need, loc)
    return _spec(role, need, entry.count, entry.gang, loc)


def _per_task(devices: Devices, loc: Loc) -> int:
    if devices.counts.least != devices.counts.most:
        raise FieldError(loc, "must be one number; for a range of tasks use count: 1..8")
    if devices.counts.most > MAX_DEVICES:
        problem = f"a task runs on one node, which has at most {MAX_DEVICES} devices"
        raise FieldError(loc, f"{problem}; write count: {devices.counts.most} and devices: 1")
    return devices.counts.most


def _refuse_empty(need: Need, loc: Loc) -> None:
    if need == Need():
        raise FieldError(loc, "a task without devices needs cores or memory, for example cores: 4")


def _refuse_tiny(need: Need, loc: Loc) -> None:
    if 0 < need.memory < _LEAST_MEMORY:
        raise FieldError(
            (*loc, "memory"), "no process starts with less than 1MB; write for example 2GB"
        )


def _spec(role: Role, need: Need, counts: Counts, gang: int | None, loc: Loc) -> RoleSpec:
    if gang is not None and gang > counts.least:
        problem = f"must be at most the least count, {counts.least}, not {gang}"
        raise FieldError((*loc, "gang"), problem)
    return RoleSpec(role, need, gang or counts.least, counts.least, counts.most)


def device_types_of(entry: JobEntry, roles: tuple[RoleSpec, ...]) -> tuple[str, ...]:
    """Return the allowed types: `any_of`, or the one given with a count."""
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
    written: dict[Loc, Devices | None] = {("devices",): entry.devices}
    for name in ("worker", "server"):
        role: RoleEntry | None = getattr(entry.roles, name, None)
        written["roles", name, "devices"] = role.devices if role else None
    return {
        loc: devices.device_type
        for loc, devices in written.items()
        if devices is not None and devices.device_type is not None
    }


def _refuse_bad_choice(any_of: list[str], types: tuple[str, ...], roles: tuple[RoleSpec, ...]) -> None:
    if not any_of:
        raise FieldError(("any_of",), "must name at least one device type; remove it to allow any")
    again = repeated(any_of)
    if again is not None:
        raise FieldError(("any_of", again), f"'{any_of[again]}' is given twice")
    if types and any_of != list(types):
        raise FieldError(("any_of",), f"contradicts {types[0]} given with devices; keep one of them")
    if not any(spec.need.devices for spec in roles):
        raise FieldError(("any_of",), "needs a job with devices")
