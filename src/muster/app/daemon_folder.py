"""The files by which commands find the daemon of a folder.

`daemon.pid` holds its process id and is locked while it lives, so a file left behind by a killed daemon
is recognised and its number, which may belong to another process by now, is never signalled.
`daemon.json` says what the daemon is doing.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from muster.app.options import Listening

PID_FILE, STATUS_FILE = "daemon.pid", "daemon.json"


class TakenError(RuntimeError):
    """Another daemon uses this folder."""

    def __init__(self, folder: Path, pid: int) -> None:
        super().__init__(f"a daemon (process {pid}) already uses {folder}")


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    pid: int
    state: Literal["starting", "standby", "ready"]
    listening: Listening | None = None
    """Set once it is ready."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Be the daemon of the folder inside the block; raises TakenError if another process is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / PID_FILE
    with open(path, "a+", encoding="ascii", opener=private) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TakenError(folder, _number(path) or 0) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        write_status(folder, DaemonStatus(os.getpid(), "starting"))
        yield
        file.truncate(0)
        (folder / STATUS_FILE).unlink(missing_ok=True)


def private(path: str, flags: int) -> int:
    """Open a file that only its owner can read, for `open`."""
    return os.open(path, flags, 0o600)


def holder(folder: Path) -> int | None:
    """Return the process id of the folder's daemon, or None."""
    path = folder / PID_FILE
    try:
        with path.open(encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _number(path)
    except FileNotFoundError:
        pass
    return None


def write_status(folder: Path, status: DaemonStatus) -> None:
    """Replace `daemon.json`. A full disk must not end the daemon, so failures are ignored."""
    draft = folder / f".{STATUS_FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        with open(draft, "wb", opener=private) as file:
            file.write(msgspec.json.encode(status))
        draft.replace(folder / STATUS_FILE)


def read_status(folder: Path) -> DaemonStatus | None:
    try:
        return msgspec.json.decode((folder / STATUS_FILE).read_bytes(), type=DaemonStatus)
    except (OSError, msgspec.DecodeError):
        return None


def _number(path: Path) -> int | None:
    text = path.read_text(encoding="ascii").strip()
    return int(text) if text.isdigit() else None
