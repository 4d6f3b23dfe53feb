"""Logs of tasks on other nodes: the daemon's copies, which outlive the nodes.

A copy is a log like those of the local executor. One node at a time is its source. A task that is
restarted under the same name on another node appends there to a log of that node's own; here it
continues the same copy, so each source's offsets are counted apart.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from muster.executors.local.logs import LogFolder
from muster.executors.private_folder import make_private
from muster.model.task import LogPiece, TaskId

LOG_LIMIT = 64 * 2**20
"""Bytes of one task's log, as on its node."""
TRIM_EVERY = 2**20
"""Bytes written to a log between two checks of its size."""


@dataclass(slots=True)
class _Copy:
    """A log's source, and how many bytes of it each node has sent."""

    source: str
    sent: dict[str, int] = field(default_factory=dict)
    base: int = 0
    """Bytes of the copy that are not of its source: what that has sent is the rest."""
    untrimmed: int = 0


class LogStore:
    """Copies by name, in a folder that is the daemon's own. Not thread-safe, except `read`."""

    def __init__(self, root: Path, limit: int = LOG_LIMIT) -> None:
        make_private(root)
        self._root, self._logs = root, LogFolder(root, limit)
        self._copies: dict[str, _Copy] = {}

    def begin(self, log: str, node: str) -> None:
        """Let a node write a log, from now on alone; `LookupError` for a bad name."""
        path = self._logs.place(log)
        make_private(path.parent)
        copy = self._copy(log)
        if copy is not None and copy.source == node:
            return
        end = self._end(path)
        if copy is None:
            copy = _Copy(node, base=end)
        else:
            copy.sent[copy.source] = end - copy.base
            copy.source, copy.base = node, end - copy.sent.pop(node, 0)
        self._copies[log] = copy
        path.touch(mode=0o600)
        self._keep(path, copy)

    def source(self, log: str) -> str:
        """Return the node that writes a log; empty: none."""
        with contextlib.suppress(LookupError):
            copy = self._copy(log)
            return copy.source if copy else ""
        return ""

    def have(self, log: str) -> int:
        """Return how many bytes of its log the source has sent."""
        copy = self._copy(log)
        return self._end(self._logs.place(log)) - copy.base if copy else 0

    def append(self, log: str, offset: int, data: bytes) -> int:
        """Add what the source has sent, from an offset of its own; return how much there is now.

        What is there already is left out. A gap is what the node has trimmed, and said so in the log.
        """
        copy, path = self._copy(log), self._logs.place(log)
        assert copy is not None
        have = self._end(path) - copy.base
        if offset > have:
            copy.base -= offset - have
            self._keep(path, copy)
            have = offset
        fresh = data[have - offset :]
        if fresh:
            with path.open("ab", buffering=0) as file:
                file.write(fresh)
            copy.untrimmed += len(fresh)
            if copy.untrimmed > TRIM_EVERY:
                copy.untrimmed = 0
                self._logs.trim(log)
        return have + len(fresh)

    def read(self, log: str, offset: int, size: int) -> LogPiece:
        """Read a part of a copy; `LookupError` if there is none."""
        return self._logs.read(log, offset, size)

    def find(self, task: TaskId) -> str:
        """Return the name of a task's log; empty: there is none yet."""
        for job in self._root.iterdir():
            if job.name.partition("-")[0] == str(task.number):
                log = f"{job.name}/{task.generation}/{task.name}.log"
                if (self._root / log).exists():
                    return log
        return ""

    def prune(self, older_than: float, living: Collection[int]) -> int:
        """Delete the logs of jobs without live tasks that nobody has written since then."""
        removed = 0
        for job in sorted(self._root.iterdir()):
            alive = job.name.partition("-")[0] in {str(number) for number in living}
            if job.is_dir() and not alive and _newest(job) < older_than:
                shutil.rmtree(job, ignore_errors=True)
                removed += 1
        self._copies = {log: copy for log, copy in self._copies.items() if (self._root / log).exists()}
        return removed

    def _copy(self, log: str) -> _Copy | None:
        if log not in self._copies:
            try:
                entry = json.loads(_beside(self._logs.place(log)).read_bytes())
                self._copies[log] = _Copy(entry["source"], dict(entry["sent"]), int(entry["base"]))
            except (OSError, ValueError, KeyError, TypeError):
                return None
        return self._copies[log]

    def _keep(self, path: Path, copy: _Copy) -> None:
        entry = {"source": copy.source, "sent": copy.sent, "base": copy.base}
        draft = path.with_name(f".{path.name}.from")
        draft.write_text(json.dumps(entry), encoding="ascii")
        draft.replace(_beside(path))

    def _end(self, path: Path) -> int:
        """All bytes ever written to a copy."""
        try:
            return self._logs.read(str(path.relative_to(self._root)), -1, 1).next
        except LookupError:
            return 0


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.source")


def _newest(folder: Path) -> float:
    times = [folder.stat().st_mtime]
    for inside, _, files in os.walk(folder):
        times += [(Path(inside) / name).lstat().st_mtime for name in files]
    return max(times)
