"""Several jobs in one file or request, submitted together: `jobs`, by name.

Other fields at the top are defaults of every job; `name` begins the name of each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from muster.files.errors import Loc, dotted, shown
from muster.files.job.job_file import NULLABLE, JobFile, job_in, job_of, job_schema
from muster.files.source.faults import Fault, FaultsError
from muster.files.source.quantity import parse_name
from muster.files.source.yaml_source import Data, Source, read_source
from muster.model.job import Job

JOBS = "jobs"
MAX_JOBS = 1_000
_PREFIX, _SWEEP = "name", "sweep"
_ALONE = "cannot be among several jobs: submit it by itself, with after for what it comes after"


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """What a file with several jobs describes, and the record that submits it."""

    jobs: dict[str, JobFile]
    """By name, parents first."""
    prefix: str
    """Begins the names of its jobs; empty: nothing does."""
    lines: dict[str, int]
    """Where its fields are in the file."""


def is_pipeline(path: Path) -> bool:
    """Whether a file has several jobs; one that cannot be read has not."""
    try:
        data = read_source(path, NULLABLE).data
    except ValueError:
        return False
    return isinstance(data, dict) and JOBS in data


def read_pipeline(path: Path) -> PipelineFile:
    """Read and check a file with several jobs; FaultsError has one line for each fault."""
    source = read_source(path, NULLABLE)
    assert isinstance(source.data, dict)
    prefix = str(source.data.get(_PREFIX, ""))
    faults: list[Fault] = []
    lines: list[str] = []
    found: dict[str, JobFile] = {}
    try:
        parts = _parts(source.data)
        for name, (common, own) in parts.items():
            below = _below(source, name, common, own)
            try:
                found[name] = job_in(below, name, path.parent.absolute())
            except FaultsError as error:
                faults += [_located(name, common, own, fault) for fault in error.faults]
                lines += error.lines
        if not faults:
            order = in_order({name: each.job for name, each in found.items()})
            found = {name: found[name] for name in order}
    except FaultsError as error:
        faults = [*error.faults]
        lines = [str(source.error(fault.loc, fault.problem)) for fault in error.faults]
    if faults:
        raise FaultsError(faults, lines)
    return PipelineFile(found, prefix, {dotted(loc): line for loc, line in source.lines.items()})


def pipeline_of(record: Mapping[str, Any]) -> list[tuple[Job, dict[str, Any]]]:
    """Return the jobs of a JSON mapping, parents first, each with its own mapping; FaultsError has all
    faults."""
    faults: list[Fault] = []
    found: dict[str, Job] = {}
    parts = _parts(record)
    for name, (common, own) in parts.items():
        try:
            found[name] = job_of({**common, **own}, name)
        except FaultsError as error:
            faults += [_located(name, common, own, fault) for fault in error.faults]
    if faults:
        raise FaultsError(faults)
    prefix = str(record.get(_PREFIX, ""))
    full = {name: f"{prefix}-{name}" if prefix else name for name in found}
    return [
        (_named(found[name], full[name], full), parts[name][0] | parts[name][1])
        for name in in_order(found)
    ]


def pipeline_schema() -> dict[str, Any]:
    """Return the JSON Schema of a file with several jobs."""
    job = job_schema()
    own = (_PREFIX, _SWEEP)
    shared = {field: each for field, each in job["properties"].items() if field not in own}
    one = {"type": "object", "properties": shared, "additionalProperties": False}
    named = {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/Job"}}
    prefix = {**job["properties"][_PREFIX], "description": "Begins the names of its jobs."}
    return {
        "$schema": job["$schema"],
        "$defs": {**job.get("$defs", {}), "Job": one},
        "title": "Muster pipeline file",
        "description": "Several jobs, submitted together; fields beside `jobs` are their defaults.",
        "type": "object",
        "properties": {_PREFIX: prefix, JOBS: named, **shared},
        "required": [JOBS],
        "additionalProperties": False,
    }


def in_order(jobs: Mapping[str, Job]) -> list[str]:
    """Return the names of jobs, parents first; FaultsError names a cycle."""
    left, found = dict(jobs), list[str]()
    while left:
        ready = [name for name, job in left.items() if not any(each.job in left for each in job.after)]
        if not ready:
            cycle = _cycle(left)
            problem = f"none of them could ever start: {' after '.join(cycle)}"
            raise FaultsError([Fault((JOBS, cycle[0], "after"), problem)])
        for name in ready:
            del left[name]
        found += ready
    return found


def _cycle(left: Mapping[str, Job]) -> list[str]:
    """Return the names along a cycle, the first again at the end; each job comes after another one."""
    path = [next(iter(left))]
    while path[-1] not in path[:-1]:
        path.append(next(each.job for each in left[path[-1]].after if each.job in left))
    return path[path.index(path[-1]) :]


def _named(job: Job, name: str, full: Mapping[str, str]) -> Job:
    """Return a job under its full name, and with those of the jobs it comes after."""
    after = (replace(each, job=full.get(each.job, each.job)) for each in job.after)
    return replace(job, name=name, after=tuple(after))


Part = tuple[dict[str, Any], dict[str, Any]]
"""The fields that all jobs share, and a job's own."""


def _parts(record: Mapping[str, Any]) -> dict[str, Part]:
    """Return the jobs by name; FaultsError if there is none, or a name is not one."""
    jobs = record.get(JOBS)
    if not isinstance(jobs, Mapping) or not jobs:
        raise FaultsError([Fault((JOBS,), "must be a mapping of names to jobs, with one at the least")])
    if len(jobs) > MAX_JOBS:
        raise FaultsError([Fault((JOBS,), f"has more than {MAX_JOBS:,} jobs")])
    common = {field: value for field, value in record.items() if field not in (JOBS, _PREFIX)}
    faults = [fault for name, own in jobs.items() if (fault := _wrong(str(name), own))]
    if _SWEEP in common:
        faults.append(Fault((_SWEEP,), _ALONE))
    if _PREFIX in record and (problem := _bad_name(record[_PREFIX])):
        faults.append(Fault((_PREFIX,), problem))
    if faults:
        raise FaultsError(faults)
    return {str(name): (dict(common), dict(own)) for name, own in jobs.items()}


def _wrong(name: str, own: object) -> Fault | None:
    if problem := _bad_name(name):
        return Fault((JOBS, name), problem)
    if not isinstance(own, Mapping):
        return Fault((JOBS, name), "must be a mapping of fields to values")
    if _PREFIX in own:
        return Fault((JOBS, name, _PREFIX), f"is its key already, {shown(name)}; remove it")
    return Fault((JOBS, name, _SWEEP), _ALONE) if _SWEEP in own else None


def _bad_name(name: object) -> str:
    try:
        parse_name(name if isinstance(name, str) else "")
    except ValueError as error:
        return str(error)
    return ""


def _located(name: str, common: Mapping[str, Any], own: Mapping[str, Any], fault: Fault) -> Fault:
    """Return a fault of a job as one of the whole: what all share is at the top."""
    shared = bool(fault.loc) and fault.loc[0] in common and fault.loc[0] not in own
    return fault if shared else replace(fault, loc=(JOBS, name, *fault.loc))


def _below(source: Source, name: str, common: dict[str, Any], own: dict[str, Any]) -> Source:
    """Return a job of a file as if it had one of its own, at the same lines."""
    inner: Loc = (JOBS, name)
    lines = {loc: line for loc, line in source.lines.items() if loc and loc[0] in common}
    lines |= {loc[2:]: line for loc, line in source.lines.items() if loc[:2] == inner}
    data: dict[str, Data | None] = {**common, **own}
    return Source(source.path, data, lines)
