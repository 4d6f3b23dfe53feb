"""The files of a call: the function with its arguments, and what came of it. The standard library
alone.

Each begins with a line of JSON, which any version can read, and goes on with a pickle, which may need
the same Python.
"""

import json
import os
import pickle
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

CALL = "call.pickle"
RESULT = ".result"
"""Ends the name of a task's result: `worker-0.result`."""
HUGE = 100_000_000
"""Bytes of a pickle above which its size is told: minutes over a slow network."""


class CallError(Exception):
    """A call that cannot be sent or run; `str()` says why and what to do."""


@dataclass(frozen=True, slots=True)
class CallHeader:
    """Who pickled a call, and where its function belongs."""

    name: str
    """Of the function."""
    python: str
    """Version that pickled it: "3.11"."""
    cloudpickle: str
    folder: str
    """Working directory of the caller."""
    path: tuple[str, ...] = ()
    """Where the caller finds modules."""


@dataclass(frozen=True, slots=True)
class ResultHeader:
    """How a call ended in one task."""

    ok: bool
    python: str
    size: int = 0
    """Bytes of the pickle; 0: none."""
    error: str = ""
    """The exception in one line."""
    traceback: str = ""


def python_version() -> str:
    """`3.11`: pickles of functions are good for one minor version."""
    return ".".join(platform.python_version_tuple()[:2])


def cloudpickle_version() -> str:
    """Return the version of cloudpickle, empty where there is none."""
    try:
        return version("cloudpickle")
    except PackageNotFoundError:
        return ""


def write_call(
    folder: Path, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> int:
    """Write a call into a folder; return the bytes of its pickle."""
    try:
        import cloudpickle  # slow to import, and of no use to a training
    except ImportError:
        raise CallError("functions need cloudpickle: pip install cloudpickle") from None
    name = name_of(function)
    # A folder may be gone, and an entry of the path may be no text.
    path = tuple(str(Path(entry).absolute()) for entry in sys.path if isinstance(entry, str))
    header = CallHeader(name, python_version(), cloudpickle_version(), str(Path.cwd()), path)
    try:
        data = cloudpickle.dumps((function, args, dict(kwargs)))
    except Exception as error:
        raise CallError(f"{name} cannot be pickled: {error}") from error
    _write(folder / CALL, asdict(header), data)
    return len(data)


def read_call(folder: Path) -> tuple[CallHeader, bytes]:
    """Return who made the call of a folder, and its pickle."""
    header, data = _read(folder / CALL)
    return CallHeader(**{**header, "path": tuple(header.get("path", ()))}), data


def refuse_other_python(header: CallHeader) -> None:
    """Raise CallError if this interpreter cannot be trusted with the pickle."""
    here = python_version()
    if header.python != here:
        raise CallError(
            f"{header.name} was pickled by Python {header.python}, but {sys.executable} is Python "
            f"{here}; submit it from the same version, or give the one to run it with python=..."
        )
    there, own = header.cloudpickle, cloudpickle_version()
    if not own:
        raise CallError(
            f"{sys.executable} has no cloudpickle {there}: pip install cloudpickle=={there}"
        )
    if there.split(".")[0] != own.split(".")[0]:
        raise CallError(
            f"{header.name} was pickled by cloudpickle {there}, but {sys.executable} has {own}; "
            f"install the same: pip install cloudpickle=={there}"
        )


def write_result(folder: Path, task: str, header: ResultHeader, data: bytes = b"") -> None:
    """Write what came of a call in one task."""
    _write(folder / f"{task}{RESULT}", asdict(header), data)


def read_result(path: Path) -> tuple[ResultHeader, Any]:
    """Return how a call ended, and its value or exception; None for one that could not be pickled."""
    header, data = _read(path)
    result = ResultHeader(**header)
    if not data:
        return result, None
    try:
        return result, pickle.loads(data)
    except Exception as error:
        here = python_version()
        why = "" if here == result.python else f"; it ran with Python {result.python}, this is {here}"
        raise CallError(f"the result in {path} cannot be unpickled here: {error!r}{why}") from error


def results_of(folder: Path) -> list[Path]:
    """List the results of a call by rank."""
    found = folder.glob(f"*{RESULT}")
    return sorted(found, key=lambda path: (len(path.name), path.name))


def name_of(function: Callable[..., Any]) -> str:
    """Return what people call a function; of a partial, that of what it calls."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__qualname__", type(inner).__name__))


def _write(path: Path, header: Mapping[str, Any], data: bytes) -> None:
    """Write all of it or nothing: a reader may look at any time."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(json.dumps(header).encode() + b"\n")
        file.write(data)
    draft.replace(path)


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    with path.open("rb") as file:
        return json.loads(file.readline()), file.read()
