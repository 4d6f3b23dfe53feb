"""Jobs as users write them, in files and requests: see docs/reference/files.md."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath
from typing import Any, TypeVar

from pydantic import ValidationError

from muster.files.errors import FieldError, dotted
from muster.files.job.as_written import as_written
from muster.files.job.environ import TO_BE_GIVEN
from muster.files.job.job_entries import LEVELS, JobEntry
from muster.files.job.job_parts import (
    batch_of,
    device_types_of,
    folder_of,
    kept_files,
    largest_of,
    model_of,
    notify_on_of,
    profile_source,
    program_of,
    refuse_without_servers,
    resume_of,
    roles_of,
)
from muster.files.source.faults import Fault, FaultsError
from muster.files.source.quantity import default_name, parse_name
from muster.files.source.validation import faults_of, schema_of
from muster.files.source.yaml_source import Source, read_source, source_of
from muster.model.job import RESTART_SECONDS, Job, Locality, StepProfile

T = TypeVar("T")

LIVE_SECONDS = 1.0
"""Default pause of a live resize: the runtime needs some 50 ms for the switch, and a new worker's first
steps are slow."""

NULLABLE = "env"
"""The mapping whose values may be given at submission."""


@dataclass(frozen=True, slots=True)
class JobFile:
    """What a job file describes: the job, and the record that submits it."""

    job: Job
    """Without the variables that must be given at submission."""
    record: dict[str, Any]
    """As a request brings it, with no path in it that needs the file."""
    lines: dict[str, int] = field(default_factory=dict)
    """Where its fields are in the file."""


def read_job(path: Path, base: Path | None = None) -> JobFile:
    """Read and check a job file; FaultsError has one line for each fault.

    `base`: the folder that paths in it count from; None: its own.
    """
    return job_in(read_source(path, NULLABLE), path.stem, (base or path.parent).absolute())


def job_in(source: Source, name: str, base: Path) -> JobFile:
    """Return the job that a file, or a part of one, describes."""
    try:
        entry = _entry(source.data, source)
        profile = profile_source(entry.model, base)
        job = _job(entry, name, base, "the file's name", profile)
    except FaultsError as error:
        lines = [str(source.error(fault.loc, fault.problem)) for fault in error.faults]
        raise FaultsError(error.faults, lines) from None
    record: dict[str, Any] = {"name": name, **_mapping(source)}
    if entry.folder is not None:
        record["folder"] = job.program.folder
    if entry.checkpoint is not None:
        record["checkpoint"] = job.program.checkpoint
    if entry.ship is not None:
        record["ship"] = str(base / entry.ship)
    if entry.resume_from is not None:
        record["resume_from"] = job.program.resume_from
    if job.program.container is not None:
        record["container"] = asdict(job.program.container)
    if profile is not None:
        record["model"] = {"name": Path(profile.path).stem, **_mapping(profile)}
    return JobFile(job, record, {dotted(loc): line for loc, line in source.lines.items()})


def load_job(path: Path) -> Job:
    return read_job(path).job


def _mapping(source: Source) -> dict[str, Any]:
    assert isinstance(source.data, dict)
    return source.data


def job_of(record: Mapping[str, Any], name: str | None = None) -> Job:
    """Return the job of a JSON mapping; FaultsError has all faults.

    `name`: its name where the mapping has none; else it is named after its command.
    """
    data, faults = as_written(record, NULLABLE)
    bad = {fault.loc[0] for fault in faults}
    try:
        entry = _entry({key: value for key, value in data.items() if key not in bad})
        job = _job(entry, name or _command_name(entry), None, "what is given for it")
    except FaultsError as error:
        faults += [fault for fault in error.faults if fault.loc[:1] not in {(key,) for key in bad}]
    if not faults:
        faults = [
            Fault((NULLABLE, key), TO_BE_GIVEN) for key, text in entry.env.items() if text is None
        ]
    if faults:
        raise FaultsError(faults)
    return job


def entry_of(record: Mapping[str, Any]) -> JobEntry:
    """Return the entry of a JSON mapping that `job_of` accepts."""
    return _entry(as_written(record, NULLABLE)[0])


def job_schema() -> dict[str, Any]:
    return schema_of(JobEntry, "Muster job file")


def _entry(data: Any, source: Source | None = None) -> JobEntry:
    try:
        return JobEntry.model_validate(data)
    except ValidationError as error:
        raise FaultsError(faults_of(JobEntry, error, source or source_of(data))) from None


def _job(
    entry: JobEntry, name: str, base: Path | None, called: str, profile: Source | None = None
) -> Job:
    """Build the job; `base` is the folder that paths count from, None: no file is read."""
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
    model = part(lambda: model_of(entry.model, base, profile))
    folder = part(lambda: folder_of(entry.folder, base, shipped=entry.ship is not None))
    kept = part(lambda: kept_files(entry, base))
    resume = part(lambda: resume_of(entry.resume_from, base))
    named = part(lambda: entry.name or default_name(name, called))
    part(lambda: notify_on_of(entry))
    part(lambda: refuse_without_servers(entry))
    if faults or roles is None or types is None or folder is None or named is None:
        raise FaultsError(faults)
    if resume is None or kept is None:
        raise FaultsError(faults)
    restarts = entry.elastic == "restart"
    usual_pause = RESTART_SECONDS if restarts else LIVE_SECONDS
    return Job(
        name=named,
        command=entry.command,
        user=entry.user,
        pool=entry.pool,
        priority=entry.priority,
        preemptible=_preemptible(entry),
        roles=roles,
        device_types=types,
        same_generation=entry.same_generation is not False,
        locality=Locality(LEVELS[entry.locality.widest], entry.locality.max_slowdown),
        profile=StepProfile(entry.step.compute, float(entry.step.gradients)) if entry.step else None,
        duration=entry.duration,
        pause=usual_pause if entry.pause is None else entry.pause,
        model=model,
        batch=batch,
        work=float(entry.work) if entry.work is not None else None,
        restarts=restarts,
        application=entry.application,
        program=program_of(entry, folder, resume, kept),
        resumes=_resumes(entry),
        largest_batch=largest_of(entry),
        after=entry.after,
        labels=entry.labels,
        spans=not entry.same_generation,
    )


def _preemptible(entry: JobEntry) -> bool:
    """As stated; else nobody's terminal is taken away while they type."""
    stated = "preemptible" in entry.model_fields_set
    return entry.preemptible if stated or entry.interactive is None else False


def _resumes(entry: JobEntry) -> bool:
    """Whether it continues from a checkpoint: as stated, or if it can be asked for one."""
    if entry.resumes is not None or entry.interactive is not None:
        return bool(entry.resumes)
    return entry.checkpoint_signal is not None or entry.elastic == "restart"


def _command_name(entry: JobEntry) -> str:
    """Name a job after its script, else its program."""
    words = entry.command[0].split() if entry.shell else entry.command
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0])
    try:
        name = parse_name(PurePath(script).stem)
        return name if re.search("[A-Za-z]", name) else f"job-{name}"
    except ValueError:
        return "job"
