"""The file that says which process is the daemon of a folder.

The daemon holds a lock on it for as long as it lives: a file left behind by one that was killed is told
from a true one, and no stranger who got its number is ever sent a signal.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "daemon.pid"


class TakenError(RuntimeError):
    """Another daemon works with this folder."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"a daemon works with this folder already, process {pid}")
        self.pid = pid


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """This process is the daemon of the folder, inside the block; raises TakenError if another is."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TakenError(_number(path) or 0) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield path
        file.truncate(0)


def holder(folder: Path) -> int | None:
    """The process that is the daemon of the folder; None if none is."""
    path = folder / NAME
    try:
        with path.open(encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _number(path)
    except FileNotFoundError:
        pass
    return None


def _number(path: Path) -> int | None:
    text = path.read_text(encoding="ascii").strip()
    return int(text) if text.isdigit() else None
