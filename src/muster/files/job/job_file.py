"""Jobs as users write them, in files and requests: see docs/reference/files.md."""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any, TypeVar

from pydantic import ValidationError

from muster.files.errors import FieldError
from muster.files.job.as_written import as_written
from muster.files.job.environ import TO_BE_GIVEN
from muster.files.job.job_entries import LEVELS, JobEntry
from muster.files.job.job_parts import (
    batch_of,
    device_types_of,
    folder_of,
    model_of,
    program_of,
    refuse_without_servers,
    roles_of,
)
from muster.files.profile.profile_file import is_path
from muster.files.source.faults import Fault, FaultsError
from muster.files.source.places import Places
from muster.files.source.quantity import parse_name
from muster.files.source.validation import faults_of, schema_of
from muster.files.source.yaml_source import Source, read_source
from muster.model.job import RESTART_SECONDS, Job, Locality, StepProfile

T = TypeVar("T")

LIVE_SECONDS = 1.0
"""Pause charged for a resize while the job trains, where no figure is given: the runtime needs some
50 ms for the switch, and a new worker's first steps are slow."""

_NULLABLE = "env"


def load_job(path: Path) -> Job:
    """The job of a file; raises FaultsError, one line for each thing wrong.

    Variables that are to be given at submission are left out: who looks at a job need not have them.
    """
    source = read_source(path, _NULLABLE)
    try:
        return _job(
            _entry(source.data, source), path.stem, path.parent.absolute(), "the file's own name"
        )
    except FaultsError as error:
        raise _with_lines(error.faults, source) from None


def record_of(path: Path) -> dict[str, Any]:
    """The mapping of a file as a request brings it: checked, with no path in it that needs the file."""
    load_job(path)
    record: dict[str, Any] = dict(read_source(path, _NULLABLE).data)  # type: ignore[arg-type]
    record.setdefault("name", path.stem)
    if "folder" in record:
        record["folder"] = str(path.parent.absolute() / record["folder"])
    if isinstance(record.get("model"), str) and is_path(record["model"]):
        profile = path.parent / record["model"]
        data: dict[str, Any] = dict(read_source(profile).data)  # type: ignore[arg-type]
        record["model"] = {"name": profile.stem, **data}
    return record


def job_of(record: Mapping[str, Any], name: str | None = None) -> Job:
    """The job of a mapping, as JSON holds it; raises FaultsError with everything that is wrong.

    `name`: what it is called where the mapping does not say; else it is called after its command.
    """
    data, faults = as_written(record, _NULLABLE)
    bad = {fault.loc[0] for fault in faults}
    try:
        entry = _entry({key: value for key, value in data.items() if key not in bad}, Places(data))
        job = _job(entry, name or _command_name(entry), None, "what is given for it")
    except FaultsError as error:
        faults += [fault for fault in error.faults if fault.loc[:1] not in {(key,) for key in bad}]
    if not faults:
        faults = [
            Fault((_NULLABLE, key), TO_BE_GIVEN) for key, text in entry.env.items() if text is None
        ]
    if faults:
        raise FaultsError(faults)
    return job


def job_schema() -> dict[str, Any]:
    """The JSON Schema of job files."""
    return schema_of(JobEntry, "Muster job file")


def _entry(data: object, places: Source | Places) -> JobEntry:
    try:
        return JobEntry.model_validate(data)
    except ValidationError as error:
        raise FaultsError(faults_of(JobEntry, error, places)) from None


def _job(entry: JobEntry, name: str, base: Path | None, called: str) -> Job:
    """`base`: the folder that paths count from; None: no file is read."""
    faults: list[Fault] = []

    def part(make: Callable[[], T]) -> T | None:
        try:
            return make()
        except FieldError as error:
            faults.append(Fault(error.loc, error.problem))
            return None

    roles = part(lambda: roles_of(entry))
    types = part(lambda: device_types_of(entry, roles)) if roles else ()
    batch = part(lambda: batch_of(entry, roles)) if roles else None
    model = part(lambda: model_of(entry.model, base))
    folder = part(lambda: folder_of(entry.folder, base))
    named = part(lambda: entry.name or _default_name(name, called))
    part(lambda: refuse_without_servers(entry))
    if faults or roles is None or types is None or folder is None or named is None:
        raise FaultsError(faults)
    restarts = entry.elastic == "restart"
    return Job(
        name=named,
        command=entry.command,
        user=entry.user,
        pool=entry.pool,
        priority=entry.priority,
        preemptible=entry.preemptible,
        roles=roles,
        device_types=types,
        same_generation=entry.same_generation,
        locality=Locality(LEVELS[entry.locality.widest], entry.locality.max_slowdown),
        profile=StepProfile(entry.step.compute, float(entry.step.gradients)) if entry.step else None,
        duration=entry.duration,
        pause=_pause(entry.pause, restarts),
        model=model,
        batch=batch,
        work=float(entry.work) if entry.work is not None else None,
        restarts=restarts,
        application=entry.application,
        program=program_of(entry, folder),
    )


def _pause(given: float | None, restarts: bool) -> float:
    if given is not None:
        return given
    return RESTART_SECONDS if restarts else LIVE_SECONDS


def _default_name(name: str, called: str) -> str:
    try:
        return parse_name(name)
    except ValueError:
        problem = f"is missing, and {called} is not one; write for example resnet50"
        raise FieldError(("name",), problem) from None


def _command_name(entry: JobEntry) -> str:
    """What a job is called that nobody named: its script, else its program."""
    words = entry.command[0].split() if entry.shell else entry.command
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0])
    try:
        return parse_name(PurePath(script).stem)
    except ValueError:
        return "job"


def _with_lines(faults: tuple[Fault, ...], source: Source) -> FaultsError:
    """The same faults, each with its line in the file."""
    return FaultsError(faults, [str(source.error(fault.loc, fault.problem)) for fault in faults])
