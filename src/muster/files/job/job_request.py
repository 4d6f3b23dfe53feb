"""A job as the file that would submit it again: the inverse of `job_of`."""

from dataclasses import asdict
from decimal import Decimal
from typing import Any

from muster.files.job.job_entries import JobEntry
from muster.files.job.job_file import LIVE_SECONDS
from muster.files.profile.profile_file import profile_text, shipped_profile, shipped_profiles
from muster.files.source.yaml_source import read_value
from muster.model.happening import USUAL
from muster.model.job import RESTART_SECONDS, Job, Program, Role, RoleSpec
from muster.model.profile import ModelProfile
from muster.model.topology import Level


def request_of(job: Job) -> dict[str, Any]:
    """Return the fields of a job that are not the defaults, in the order of a job file.

    Without its owner, which is whoever submits it again, and without the jobs that it came after.
    """
    found: dict[str, Any] = {
        "name": job.name,
        "command": _command(job),
        "pool": job.pool,
        "priority": job.priority,
        "preemptible": job.preemptible,
        **_tasks(job),
        "any_of": list(job.device_types) or None,
        "same_generation": None if job.same_generation and job.spans else job.same_generation,
        "locality": _locality(job),
        "model": None if job.model is None else _model(job.model),
        "batch": _batch(job),
        "step": _step(job),
        "duration": _time(job.duration),
        "work": None if job.work is None else int(job.work),
        "application": job.application,
        "elastic": "restart" if job.restarts else "live",
        "pause": _pause(job),
        "resumes": _resumes(job),
        **_program(job.program),
        "labels": dict(job.labels),
    }
    order = {name: place for place, name in enumerate(JobEntry.model_fields)}
    stated = _BY_TERMINAL if job.program.interactive is not None else ()
    kept = {n: value for n, value in found.items() if n in stated or not _is_default(n, value)}
    return dict(sorted(kept.items(), key=lambda item: order[item[0]]))


_BY_TERMINAL = ("preemptible", "checkpoint_grace")
"""Fields whose defaults are others for an interactive job."""


def _is_default(name: str, value: object) -> bool:
    return value in (None, "", {}, [], ()) or _DEFAULTS.get(name, ...) == value


_DEFAULTS: dict[str, object] = {
    "shell": False,
    "pool": "default",
    "priority": 0,
    "preemptible": True,
    "devices": "1",
    "locality": "any",
    "elastic": "live",
    "sync": "auto",
    "owners": "reduce",
    "grace": "30s",
    "checkpoint_grace": "30s",
    "finish_grace": "600s",
    "warn": "60s",
    "at_most_once": False,
    "failures": 0,
    "slurm_env": False,
}


def _command(job: Job) -> str | list[str]:
    return job.command[0] if job.program.shell else list(job.command)


def _tasks(job: Job) -> dict[str, Any]:
    """Return the tasks: in short for workers with a device each, else by role."""
    worker = job.roles[0]
    short = len(job.roles) == 1 and (worker.need.devices == 1 or _is_cpu_job(worker))
    if not short:
        return {"roles": {spec.role.value: _role(spec) for spec in job.roles}}
    each = _each(worker)
    return {"devices": "0" if not worker.need.devices else _span(worker), **each}


def _is_cpu_job(spec: RoleSpec) -> bool:
    return not spec.need.devices and (spec.least, spec.most) == (1, 1)


def _role(spec: RoleSpec) -> dict[str, Any]:
    usual = 1 if spec.role is Role.WORKER else 0
    devices = {"devices": str(spec.need.devices)} if spec.need.devices != usual else {}
    return {"count": _span(spec), **devices, **_each(spec)}


def _each(spec: RoleSpec) -> dict[str, Any]:
    """Return what one task of a role takes besides devices, and its gang."""
    found: dict[str, Any] = {}
    if spec.gang != spec.least:
        found["gang"] = spec.gang
    if spec.need.millicores:
        found["cores"] = spec.need.millicores / 1000
    if spec.need.memory:
        found["memory"] = f"{spec.need.memory}B"
    return found


def _span(spec: RoleSpec) -> str:
    return str(spec.least) if spec.least == spec.most else f"{spec.least}..{spec.most}"


def _locality(job: Job) -> str | dict[str, str]:
    widest = next(level for level in Level if level is job.locality.widest).word
    if job.locality.max_slowdown is None:
        return widest
    return {"widest": widest, "max_slowdown": f"{_plain(100 * job.locality.max_slowdown)}%"}


def _model(profile: ModelProfile) -> Any:
    if profile.name in shipped_profiles() and shipped_profile(profile.name) == profile:
        return profile.name
    return read_value(profile_text(profile), "model")


def _batch(job: Job) -> str | None:
    if job.batch is None:
        return None
    return str(job.batch) if job.largest_batch is None else f"{job.batch}..{job.largest_batch}"


def _step(job: Job) -> dict[str, str | None] | None:
    step = job.profile
    if step is None:
        return None
    return {"compute": _time(step.compute), "gradients": f"{int(step.gradients)}B"}


def _pause(job: Job) -> str | None:
    usual = RESTART_SECONDS if job.restarts else LIVE_SECONDS
    return None if job.pause == usual else _time(job.pause)


def _resumes(job: Job) -> bool | None:
    usual = job.program.checkpoint_signal is not None or job.restarts
    if job.program.interactive is not None:
        usual = False
    return None if job.resumes is usual else job.resumes


def _program(program: Program) -> dict[str, Any]:
    warn = _time(program.warn) or ""
    origin = {
        "env": dict(program.origin.environ),
        "executable": program.origin.executable,
        "host": program.origin.host,
    }
    return {
        "shell": program.shell,
        "folder": program.folder,
        "env": dict(program.environ),
        "sync": program.sync,
        "owners": program.owners,
        "grace": _time(program.grace),
        "checkpoint_signal": program.checkpoint_signal,
        "checkpoint_grace": _time(program.checkpoint_grace),
        "finish_grace": _time(program.finish_grace),
        "time": _time(program.time),
        "warn": f"{program.warn_signal}@{warn}" if program.warn_signal else warn,
        "until": program.until,
        "resume_from": program.resume_from,
        "checkpoint": program.checkpoint,
        "ship": program.ship,
        "at_most_once": program.at_most_once,
        "failures": program.failures,
        "losses": program.losses,
        "interactive": _time(program.interactive),
        "container": asdict(program.container) if program.container else None,
        "slurm_env": program.slurm_env,
        "notify": program.notify,
        "notify_on": list(program.notify_on) if program.notify_on != USUAL else None,
        "origin": {name: value for name, value in origin.items() if value},
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else f"{_plain(seconds)}s"


def _plain(number: float) -> str:
    """Return a number without an exponent, as files have it."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
