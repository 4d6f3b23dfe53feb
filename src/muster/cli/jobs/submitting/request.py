"""`muster run`: from the command line to the job to submit."""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from muster.cli.jobs.submitting.batch_script import from_batch, is_batch
from muster.cli.jobs.submitting.field_options import FieldOptions, given_fields
from muster.cli.jobs.submitting.options import RunRequest
from muster.cli.parse import parsed
from muster.cli.sweeps.options import sweep_options
from muster.client.sending.origin import carried, with_origin
from muster.executors.accounts import own_user
from muster.files.errors import InputError
from muster.files.source.quantity import parse_devices, parse_user

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 63

_PYTHON_TIMEOUT = 10.0
"""s for a Python to print its path."""

SERVER_CORES = "0.1"
"""Cores of one parameter server of `--servers`: a task without devices must ask for something, and next
to a worker it computes little."""


def job_record(
    request: RunRequest, environ: Mapping[str, str], more: FieldOptions | None = None
) -> dict[str, Any]:
    """Return the job as the API takes it: the fields of a job file, overridden by options, and where
    it is submitted."""
    if request.template is not None:
        record = _from_template(request)
    elif not request.target:
        raise InputError.at("TARGET", "what shall run? Give a script, a program or a job file")
    elif is_batch(request.target):
        record = from_batch(request)
    else:
        inside = more is not None and more.container is not None
        record = _from_file(request) if request.job_file else _from_words(request, environ, inside)
    return completed(record, request, environ, more)


def completed(
    record: dict[str, Any],
    request: RunRequest,
    environ: Mapping[str, str],
    more: FieldOptions | None = None,
) -> dict[str, Any]:
    """Return a job with what options override, and where it is submitted."""
    fields = given_fields(more or FieldOptions())
    if "labels" in fields:
        fields["labels"] = {**(record.get("labels") or {}), **fields["labels"]}
    record |= _given(request) | fields
    for each in request.fields or ():
        _set(record, each)
    if record.get("devices") == "0" and not record.keys() & {"cores", "memory", "roles"}:
        raise InputError.at("--devices", "0 needs cores or memory; add for example --cores 4")
    if request.servers is not None:
        record |= _with_servers(record, request.servers)
    if sweep := sweep_options(request, record.get("sweep")):
        record["sweep"] = sweep
    env = _environment(record.get("env") or {}, request.env or (), environ)
    if env:
        record["env"] = env
    complete = with_origin(record, carried(environ))
    user = _login()
    if user is not None:
        complete["origin"] = {"user": user, **complete["origin"]}
    return complete


def _from_template(request: RunRequest) -> dict[str, Any]:
    """Return the saved job; paths in it count from here."""
    from muster.cli.jobs.submitting.templates import template_path
    from muster.files.job.job_file import read_job

    record = read_job(template_path(str(request.template)), Path.cwd()).record
    words = [word for word in (request.target, *(request.arguments or ())) if word]
    return {**record, "command": with_words(record.get("command"), words)}


def with_words(command: Any, words: Sequence[str]) -> Any:
    """Return a command, a line or a list, with more words at its end."""
    if not words:
        return command
    return f"{command} {shlex.join(words)}" if isinstance(command, str) else [*command, *words]


def _from_file(request: RunRequest) -> dict[str, Any]:
    path = Path(request.target)
    if request.arguments:
        problem = f"takes no arguments, but got {request.arguments[0]!r}; add them to its command"
        raise InputError.at(str(path), problem)
    from muster.files.job.job_file import read_job  # slow to import: only for a job file

    return read_job(path).record


def _from_words(
    request: RunRequest, environ: Mapping[str, str], inside: bool = False
) -> dict[str, Any]:
    """Return a script or program as a job; `inside`: of a container, which has its own Python."""
    first, rest = request.target, request.arguments or []
    command = [first, *rest]
    if first.endswith(".py"):
        if not Path(first).is_file():
            raise InputError.at(first, "does not exist; give its path from this directory")
        # Absolute only where the job works in another folder.
        script = first if request.folder is None else str(Path(first).absolute())
        if request.ship is not None:
            script = os.path.relpath(first, request.folder or Path.cwd())
        command = ["python" if inside else interpreter(environ), script, *rest]
    return {"name": _named_after(first), "command": command}


def interpreter(environ: Mapping[str, str]) -> str:
    """Return the user's Python: of the active virtual environment, else of PATH, else this one."""
    active = environ.get("VIRTUAL_ENV")
    if active and (Path(active) / "bin/python").exists():
        return str(Path(active) / "bin/python")
    path = environ.get("PATH")
    found = shutil.which("python", path=path) or shutil.which("python3", path=path)
    return sys.executable if found is None else _resolved(found)


def _resolved(python: str) -> str:
    """Return the interpreter behind a wrapper: pyenv's, for example, need more than PATH."""
    command = [python, "-c", "import sys; print(sys.executable)"]
    try:
        printed = subprocess.run(
            command, capture_output=True, text=True, timeout=_PYTHON_TIMEOUT, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return python
    return printed.strip() or python


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, with a number appended if a live job already has it."""
    if name not in taken:
        return name
    numbered = (f"{name[: _LONGEST_NAME - len(end)]}{end}" for end in (f"-{i}" for i in count(2)))
    return next(each for each in numbered if each not in taken)


def _named_after(word: str) -> str:
    plain = _NOT_IN_NAMES.sub("-", Path(word).stem).strip("-._")
    if not re.search("[A-Za-z]", plain):  # digits alone would be a number
        plain = f"job-{plain}".rstrip("-")
    return plain[:_LONGEST_NAME]


def _given(request: RunRequest) -> dict[str, Any]:
    options = {
        "devices": request.devices,
        "cores": request.cores,
        "memory": request.memory,
        "name": request.name,
        "pool": request.pool,
        "priority": request.priority,
        "folder": None if request.folder is None else str(request.folder.absolute()),
        "ship": None if request.ship is None else str(request.ship.absolute()),
        "checkpoint": _checkpoint(request.checkpoint),
        "elastic": request.elastic,
        "time": request.time,
        "until": request.until,
        "notify": request.notify,
        "notify_on": [each.strip() for text in request.notify_on or () for each in text.split(",")]
        or None,
        "batch": request.batch,
        "resume_from": _resume_from(request.resume_from),
        "slurm_env": "true" if request.slurm_env else None,
    }
    return {field: value for field, value in options.items() if value is not None}


def _set(record: dict[str, Any], text: str) -> None:
    """Set a field of the record as `--set` writes it; dots lead into mappings."""
    field, equals, value = text.partition("=")
    *above, last = field.split(".")
    if not equals or not all((*above, last)):
        raise InputError.at("--set", f"{text!r} is not FIELD=VALUE; write for example locality=node")
    inner = record
    for key in above:
        below = inner.get(key)
        inner[key] = dict(below) if isinstance(below, dict) else {}
        inner = inner[key]
    from muster.files.source.yaml_source import read_value  # the same

    inner[last] = read_value(value, f"--set {field}")


def _checkpoint(text: str | None) -> str | None:
    """A URL as it is; a path from here."""
    if text is None or "://" in text:
        return text
    return str(Path(text).expanduser().absolute())


def _resume_from(text: str | None) -> str | None:
    """A job or a URL as it is; a path from here, which must be there."""
    if text is None or "/" not in text or "://" in text:
        return text
    path = Path(text).expanduser().absolute()
    if not path.exists():
        raise InputError.at("--resume-from", f"{text} does not exist; give a job or the path of one")
    return str(path)


def _with_servers(record: dict[str, Any], servers: str) -> dict[str, Any]:
    """Return roles: workers as `--devices` or the file has them, and parameter servers."""
    if "roles" in record:
        raise InputError.at("--servers", "conflicts with the file's roles; set roles.server there")
    text = str(record.pop("devices", "1"))
    devices = parsed("--devices", text, parse_devices)
    each = "1" if devices.device_type is None else f"{devices.device_type}:1"
    moved: dict[str, Any] = {
        field: record.pop(field) for field in ("gang", "cores", "memory") if field in record
    }
    worker = {"count": text.rpartition(":")[2], "devices": each, **moved}
    return {"roles": {"worker": worker, "server": {"count": servers, "cores": SERVER_CORES}}}


def _environment(
    written: Mapping[str, str | None], options: Sequence[str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Merge the file's variables with the options'; those without a value come from `environ`, and
    `HF_*` stands for all that it has of that name."""
    wanted: dict[str, str | None] = dict(written)
    for option in options:
        name, equals, value = option.partition("=")
        if not name:
            raise InputError.at("--env", f"{option!r} has no name; write for example SEED=7")
        if not equals and "*" in name:
            wanted |= {found: environ[found] for found in fnmatch.filter(environ, name)}
        else:
            wanted[name] = value if equals else None
    found: dict[str, str] = {}
    for name, given in wanted.items():
        text = environ.get(name) if given is None else given
        if text is None:
            raise InputError.at("--env", f"{name} is not set here; write --env {name}=...")
        found[name] = text
    return found


def _login() -> str | None:
    """The user's login name, or None if the machine has none for them."""
    try:
        return parse_user(own_user())
    except (KeyError, OSError, ValueError):
        return None
