"""The folder of logs: read by offsets that stay valid, and trimmed while written."""

import contextlib
import ctypes
import json
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from muster.model.task import LogPiece

LINE = 65536
"""Bytes within which a cut looks for the end of a line."""

LEAST = 4096
"""Bytes below which no log is cut: the line that says so must fit."""

KEEP_SIZE, PUNCH_HOLE = 1, 2
"""Linux' fallocate(2): keep the file's size, free its blocks."""


@dataclass(frozen=True, slots=True)
class LogExtent:
    """What is left of a log: the offset of its first byte, and of the file's first byte."""

    begin: int = 0
    shift: int = 0


class LogFolder:
    """Logs by name; offsets count all bytes ever written."""

    def __init__(self, root: Path, limit: int) -> None:
        self._root, self._limit = root, max(limit, LEAST)
        self._lock = threading.Lock()

    def place(self, log: str) -> Path:
        """Return a log's path; LookupError for a name that leads elsewhere."""
        parts = PurePosixPath(log).parts
        # Hidden files beside the logs are our own.
        if not parts or "\0" in log or log.startswith("/") or any(p.startswith(".") for p in parts):
            raise LookupError(f"{log!r} is not the name of a log")
        return self._root.joinpath(*parts)

    def read(self, log: str, offset: int, size: int) -> LogPiece:
        """Read a part of a log; LookupError if there is none."""
        path = self.place(log)
        with self._lock, _opened(path, self._root, os.O_RDONLY) as file:
            kept = _kept(path)
            end = kept.shift + os.fstat(file).st_size
            asked = offset if offset >= 0 else end + offset
            begin = min(max(asked, kept.begin), end)
            data = os.pread(file, max(0, size), begin - kept.shift)
        return LogPiece(data, begin, begin + len(data))

    def trim(self, log: str) -> None:
        """Drop the older half of a log above the limit."""
        with contextlib.suppress(LookupError):
            path = self.place(log)
            with self._lock, _opened(path, self._root, os.O_RDWR) as file:
                kept = _kept(path)
                size = os.fstat(file).st_size
                if kept.shift + size - kept.begin > self._limit:
                    self._cut(path, file, kept, size)

    def _cut(self, path: Path, file: int, kept: LogExtent, size: int) -> None:
        """Punch a hole at the beginning: the task keeps appending meanwhile."""
        position = _next_line(file, size - self._limit // 2)
        offset = kept.shift + position
        words = f"[muster: {offset} bytes dropped here, the log was above {self._limit}]\n".encode()
        begin = position - len(words)
        if _punch(file, begin):
            _put_kept(path, LogExtent(kept.shift + begin, kept.shift))
            os.pwrite(file, words, begin)
            return
        # No holes on this file system: output during these calls may be lost.
        tail = os.pread(file, size, position)
        os.ftruncate(file, 0)
        with path.open("ab", buffering=0) as end:
            end.write(words + tail)
        _put_kept(path, LogExtent(kept.shift + begin, kept.shift + begin))


@contextlib.contextmanager
def _opened(path: Path, root: Path, flags: int) -> Iterator[int]:
    """Open a plain file inside the folder: no link out of it, no pipe that would block."""
    problem = LookupError(f"no log {path.relative_to(root)}")
    try:
        inside = path.parent.resolve(strict=True).is_relative_to(root.resolve())
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise problem from None
    try:
        if not inside or not stat.S_ISREG(os.fstat(file).st_mode):
            raise problem
        yield file
    finally:
        os.close(file)


def _next_line(file: int, position: int) -> int:
    """The start of the next line, or the position itself if no line ends soon."""
    return position + os.pread(file, LINE, position).find(b"\n") + 1


def _punch(file: int, size: int) -> bool:
    """Free the file's first bytes; False if the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    fallocate = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if fallocate is None:
        return False
    offset = ctypes.c_int64
    return bool(
        fallocate(ctypes.c_int(file), ctypes.c_int(KEEP_SIZE | PUNCH_HOLE), offset(0), offset(size))
        == 0
    )


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.kept")


def _kept(path: Path) -> LogExtent:
    try:
        entry = json.loads(_beside(path).read_bytes())
        return LogExtent(int(entry["begin"]), int(entry["shift"]))
    except (OSError, ValueError, KeyError, TypeError):
        return LogExtent()


def _put_kept(path: Path, kept: LogExtent) -> None:
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(json.dumps({"begin": kept.begin, "shift": kept.shift}), encoding="ascii")
    draft.replace(_beside(path))
