"""Where a job is submitted: the caller's environment and folder, which its tasks run in."""

import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster.client.connecting.settings import UNIX, is_loopback
from muster.client.errors import ClientError, FieldFault
from muster.client.sending.ship import DIGEST

CARRIED = re.compile(
    r"PATH|PYTHONPATH|LD_LIBRARY_PATH|VIRTUAL_ENV|CONDA_(PREFIX|DEFAULT_ENV)|PYENV_(ROOT|VERSION)"
    r"|CUDA_(HOME|PATH)|LANG|LANGUAGE|LC_[A-Z]+|TZ"
)
"""What finds a command, an interpreter and its libraries, and what words it speaks. Never everything: a
shell's environment holds secrets, and megabytes."""


def carried(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job takes along from a shell."""
    return {name: text for name, text in environ.items() if CARRIED.fullmatch(name) and _is_text(text)}


def _is_text(value: str) -> bool:
    """Whether JSON can carry it: a folder's name may be no text in any encoding."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def of_this_python(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a job takes along from this process: its own interpreter's environment goes first,
    whether or not it was activated."""
    found = carried(environ)
    prefix = Path(sys.prefix)
    virtual = sys.prefix != sys.base_prefix
    if not virtual and not (prefix / "conda-meta").is_dir():
        return found
    found["VIRTUAL_ENV" if virtual else "CONDA_PREFIX"] = sys.prefix
    folders = found.get("PATH", os.defpath).split(os.pathsep)
    own = str(prefix / "bin")
    found["PATH"] = os.pathsep.join([own, *(each for each in folders if each != own)])
    return found


def with_origin(record: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """Return the job with where it is submitted: this folder, these variables.

    Fields that the job has stay; a `folder` of None is one of the job's own.
    """
    packed = str(record.get("ship", "")).startswith(DIGEST)  # not a folder of this machine
    complete = {"folder": None if packed else str(Path.cwd()), **record}
    if complete["folder"] is None:
        del complete["folder"]
    if "origin" not in complete:
        found = {"env": dict(env), "host": socket.gethostname(), "executable": _found(complete, env)}
        complete["origin"] = {name: value for name, value in found.items() if value}
    return complete


def is_this_machine(url: str, *, kept: bool) -> bool:
    """Whether a daemon's address is on this machine for certain: a Unix socket, or the loopback address
    that `muster up` has kept here."""
    return url.startswith(UNIX) or (kept and is_loopback(urlsplit(url).hostname))


def refuse_unrunnable(record: Mapping[str, Any]) -> None:
    """Raise ClientError for a folder or a command that this machine, which would run it, lacks."""
    folder, word = record.get("folder"), _first_word(record)
    if isinstance(folder, str) and not Path(folder).is_dir():
        there = "is not a folder" if Path(folder).exists() else "does not exist; create it first"
        raise _unrunnable("folder", f"{folder} {there}, or choose another")
    path = _path(record, (record.get("origin") or {}).get("env") or {})
    if word and path and not _located(word, folder, path):
        base = folder or "its own new folder"
        where = f"paths count from {base}" if "/" in word else f"PATH of the submission: {path}"
        raise _unrunnable("command", f"no such command: {word} ({where})")


def _unrunnable(field: str, problem: str) -> ClientError:
    fault = FieldFault(field, problem)
    return ClientError(422, "Unprocessable Content", "the job cannot run", errors=[fault])


def _found(record: Mapping[str, Any], env: Mapping[str, str]) -> str | None:
    word, path = _first_word(record), _path(record, env)
    return _located(word, record.get("folder"), path) if word and path else None


def _first_word(record: Mapping[str, Any]) -> str | None:
    """Return the program that is executed here; None where a shell runs the command, or a container
    has it, or it is no command."""
    command = record.get("command")
    if str(record.get("shell", "false")).lower() != "false" or record.get("container"):
        return None
    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError:
            return None
    first = command[0] if isinstance(command, list | tuple) and command else None
    return first if isinstance(first, str) else None


def _path(record: Mapping[str, Any], env: Mapping[str, str]) -> str | None:
    """Return the PATH of the tasks, as far as it is known here."""
    given = record.get("env")
    own = given.get("PATH") if isinstance(given, Mapping) else None
    return own or env.get("PATH")


def _located(word: str, folder: str | None, path: str) -> str | None:
    """Return the file that a command's first word names; as in a shell, a path is not searched for."""
    if "/" not in word:
        return shutil.which(word, path=path)
    file = Path(folder or "", word)
    return str(file) if file.is_absolute() and file.exists() else None
