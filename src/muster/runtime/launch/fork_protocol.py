"""Messages between launcher and fork server: JSON lines on a socket pair."""

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StartTask:
    """Fork a task. With `piped`, a descriptor for its output comes along."""

    task: str
    script: str
    args: tuple[str, ...]
    environ: dict[str, str]
    folder: str
    """The working directory."""
    threads: int = 0
    """Threads of torch; 0: torch's default."""
    log: str = ""
    """File for its output; empty and not `piped`: the launcher's own output."""
    piped: bool = False


@dataclass(frozen=True, slots=True)
class ForkServerReady:
    """Everything is loaded. `threads`: of the fork server; a fork is safe only with one."""

    threads: int


@dataclass(frozen=True, slots=True)
class ChildStarted:
    """A task runs."""

    task: str
    pid: int


@dataclass(frozen=True, slots=True)
class ChildExited:
    """A task has ended, with an exit code or minus the signal that killed it."""

    task: str
    pid: int
    code: int
    error: str = ""
    """Why it could not be started."""


_KINDS = {kind.__name__: kind for kind in (StartTask, ForkServerReady, ChildStarted, ChildExited)}


def to_line(message: StartTask | ForkServerReady | ChildStarted | ChildExited) -> bytes:
    """Encode a message."""
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode() + b"\n"


def from_line(line: bytes) -> Any:
    """Decode a message."""
    record = json.loads(line)
    return _KINDS[record.pop("kind")](**record)


def kill_task(pid: int, signal: int) -> None:
    """Signal a task and its child processes: it leads a session of its own."""
    try:
        os.killpg(pid, signal)
    except ProcessLookupError:
        # Just forked, it has no session yet; or it is gone.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal)
