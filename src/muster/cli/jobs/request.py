"""`muster run`: from words on the command line to the job that is asked for."""

import getpass
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from muster.files.errors import InputError
from muster.files.job.job_file import read_job
from muster.files.source.quantity import parse_devices, parse_user

_JOB_FILES = (".yaml", ".yml")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 63

_ASKED = 10.0
"""Seconds for a Python to say which it is."""

SERVER_CORES = "0.1"
"""Of one parameter server that `--servers` asks for: a task without devices must ask for something, and
next to a worker it computes little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What `muster run` was told, as it was written; None: not told."""

    words: tuple[str, ...]
    """A job file, or a script or program and its arguments."""
    devices: str | None = None
    servers: int | None = None
    name: str | None = None
    pool: str | None = None
    priority: int | None = None
    env: tuple[str, ...] = ()
    folder: Path | None = None
    elastic: str | None = None

    @property
    def names_itself(self) -> bool:
        """Whether the job is called after its script, for want of a name."""
        return self.name is None and self.job_file is None

    @property
    def job_file(self) -> Path | None:
        """The job file, if it is one that is to be run."""
        path = Path(self.words[0])
        return path if path.suffix in _JOB_FILES else None


def job_record(request: Request, environ: Mapping[str, str]) -> dict[str, Any]:
    """The job as the API takes it: a job file's fields, those given as options in place of its own."""
    record = _from_file(request) if request.job_file else _from_words(request)
    record |= _given(request)
    if request.servers is not None:
        record |= _with_servers(record, request.servers)
    env = _environment(record.get("env") or {}, request.env, environ)
    if env:
        record["env"] = env
    user = _login()
    if user is not None:
        record.setdefault("user", user)
    return record


def _from_file(request: Request) -> dict[str, Any]:
    path = Path(request.words[0])
    if len(request.words) > 1:
        problem = f"takes no arguments, but {request.words[1]!r} is given; write them into its command"
        raise InputError.at(str(path), problem)
    return {"folder": str(Path.cwd()), **read_job(path).record}


def _from_words(request: Request) -> dict[str, Any]:
    first, *rest = request.words
    command = [first, *rest]
    if first.endswith(".py"):
        if not Path(first).is_file():
            raise InputError.at(first, "does not exist; a script is named as seen from here")
        # The job may work in another folder; the script is where it is.
        command = [interpreter(os.environ), str(Path(first).absolute()), *rest]
        if request.folder is None:
            command[1] = first
    return {"name": _named_after(first), "command": command, "folder": str(Path.cwd())}


def interpreter(environ: Mapping[str, str]) -> str:
    """The user's Python: of the active virtual environment, else of the path, else this one."""
    active = environ.get("VIRTUAL_ENV")
    if active and (Path(active) / "bin/python").exists():
        return str(Path(active) / "bin/python")
    path = environ.get("PATH")
    found = shutil.which("python", path=path) or shutil.which("python3", path=path)
    return sys.executable if found is None else _itself(found)


def _itself(python: str) -> str:
    """The interpreter behind what the path has: wrappers such as pyenv's need more than it."""
    try:
        asked = [python, "-c", "import sys; print(sys.executable)"]
        told = subprocess.run(asked, capture_output=True, text=True, timeout=_ASKED, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return python
    return told.strip() or python


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it where live jobs are called so already."""
    if name not in taken:
        return name
    numbered = (f"{name[: _LONGEST_NAME - len(end)]}{end}" for end in (f"-{i}" for i in count(2)))
    return next(each for each in numbered if each not in taken)


def _named_after(word: str) -> str:
    """A job's name, made of that of its script."""
    plain = _NOT_IN_NAMES.sub("-", Path(word).stem).strip("-._")
    return plain[:_LONGEST_NAME] or "job"


def _given(request: Request) -> dict[str, Any]:
    options = {
        "devices": request.devices,
        "name": request.name,
        "pool": request.pool,
        "priority": request.priority,
        "folder": None if request.folder is None else str(request.folder.absolute()),
        "elastic": request.elastic,
    }
    return {field: value for field, value in options.items() if value is not None}


def _with_servers(record: dict[str, Any], servers: int) -> dict[str, Any]:
    """Workers as `--devices` or the file has them, and parameter servers beside them."""
    if "roles" in record:
        raise InputError.at("--servers", "is given for a file with roles; write it under roles.server")
    text = str(record.pop("devices", "1"))
    try:
        devices = parse_devices(text)
    except ValueError as error:
        raise InputError.at("--devices", str(error)) from None
    each = "1" if devices.device_type is None else f"{devices.device_type}:1"
    worker = {"count": text.rpartition(":")[2], "devices": each}
    return {"roles": {"worker": worker, "server": {"count": str(servers), "cores": SERVER_CORES}}}


def _environment(
    written: Mapping[str, str | None], options: Sequence[str], environ: Mapping[str, str]
) -> dict[str, str]:
    """What the file sets, what the options set, and what both leave to the caller's environment."""
    wanted: dict[str, str | None] = dict(written)
    for option in options:
        name, equals, value = option.partition("=")
        if not name:
            raise InputError.at("--env", f"{option!r} has no name; write for example SEED=7")
        wanted[name] = value if equals else None
    found: dict[str, str] = {}
    for name, given in wanted.items():
        text = environ.get(name) if given is None else given
        if text is None:
            raise InputError.at(
                "--env", f"{name} must be given, and is not set here; write --env {name}=..."
            )
        found[name] = text
    return found


def _login() -> str | None:
    """Who submits it, for a daemon that lets them say; None where the machine has no name for them."""
    try:
        return parse_user(getpass.getuser())
    except (KeyError, OSError, ValueError):
        return None
