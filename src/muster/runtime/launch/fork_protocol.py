"""What launcher and fork server say to each other: JSON lines on a socket pair."""

import contextlib
import json
import os
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class StartTask:
    """Fork a task. With `piped` a descriptor for its output comes along with the order."""

    task: str
    script: str
    args: tuple[str, ...]
    environ: dict[str, str]
    folder: str
    """Where the task works."""
    threads: int = 0
    """Threads of torch; 0: as torch chooses."""
    log: str = ""
    """File for its output; empty, and not `piped`: the launcher's own."""
    piped: bool = False


@dataclass(frozen=True, slots=True)
class ForkServerReady:
    """Everything is loaded. `threads`: of the fork server itself; a fork is safe with one alone."""

    threads: int


@dataclass(frozen=True, slots=True)
class ChildStarted:
    """A task lives."""

    task: str
    pid: int


@dataclass(frozen=True, slots=True)
class ChildExited:
    """A task is gone: its exit code, or minus the signal that ended it."""

    task: str
    pid: int
    code: int
    error: str = ""
    """Why it could not even be started."""


ForkServerEvent = ForkServerReady | ChildStarted | ChildExited
_EVENTS: dict[str, type[ForkServerEvent]] = {
    kind.__name__: kind for kind in (ForkServerReady, ChildStarted, ChildExited)
}


def order_line(order: StartTask) -> bytes:
    """An order as a line."""
    return json.dumps(asdict(order)).encode() + b"\n"


def read_order(line: bytes) -> StartTask:
    """The order of a line."""
    record = json.loads(line)
    return StartTask(**(record | {"args": tuple(record["args"])}))


def event_line(event: ForkServerEvent) -> bytes:
    """An event as a line."""
    return json.dumps({"event": type(event).__name__, **asdict(event)}).encode() + b"\n"


def read_event(line: bytes) -> ForkServerEvent:
    """The event of a line."""
    record = json.loads(line)
    return _EVENTS[record.pop("event")](**record)


def kill_task(pid: int, signal: int) -> None:
    """Signal a task and the processes it has started: it leads a session of its own."""
    try:
        os.killpg(pid, signal)
    except ProcessLookupError:
        # Forked this very moment, it has no session yet; or it is gone.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal)
