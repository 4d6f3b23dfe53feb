"""The ports at which the tasks of a gang meet (`MASTER_PORT` and those after it).

A program binds its port seconds after it was chosen, and nothing can hold it meanwhile: a port bound by
the daemon would be refused to programs that do not set SO_REUSEADDR. Instead, the rows of live jobs are
remembered, on disk as well, so that no two jobs get one and a restarted daemon gives a gang's next task
the same one; and a gang that finds a stranger at its port starts again at another.
"""

import contextlib
import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from muster.executors.environment import free_row
from muster.executors.private_folder import make_private

LISTEN = "0A"
"""The state of a listening socket in /proc/net/tcp."""
SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


@dataclass(frozen=True, slots=True)
class PortRow:
    """A job's ports: the first, and how many follow each other."""

    generation: int
    first: int
    count: int
    master: str
    """The name of the task that binds the first."""

    @property
    def ports(self) -> range:
        """All of them."""
        return range(self.first, self.first + self.count)


class PortRows:
    """The rows of all live jobs."""

    def __init__(self, folder: Path | None, live: Collection[int] = ()) -> None:
        """`folder`: keeps them over restarts; rows of jobs that are not live are dropped."""
        self._folder = folder
        self._rows = {number: row for number in live if (row := self._read(number)) is not None}
        for number in self._kept() - set(self._rows):
            self.forget(number)

    def of(self, number: int, generation: int, count: int, host: str, master: str) -> PortRow:
        """Return the row of a job's generation: workers of the previous one may still use theirs."""
        known = self._rows.get(number)
        if known is None or known.generation != generation:
            used = {port for row in self._rows.values() for port in row.ports}
            known = PortRow(generation, free_row(host, count, used), count, master)
            self._rows[number] = known
            self._write(number, known)
        return known

    def stolen(self, number: int, generation: int, task: str) -> int | None:
        """Return the port at which another process listens after this task, its owner, has ended; the
        job's next tasks get another row. None if nobody does."""
        row = self._rows.get(number)
        if row is None or (row.generation, row.master) != (generation, task):
            return None
        if not is_listening(row.first):
            return None
        self.forget(number)
        return row.first

    def forget(self, number: int) -> None:
        """Drop the row of a job."""
        self._rows.pop(number, None)
        if self._folder is not None:
            with contextlib.suppress(OSError):
                (self._folder / str(number)).unlink()

    def _kept(self) -> set[int]:
        if self._folder is None or not self._folder.is_dir():
            return set()
        return {int(path.name) for path in self._folder.iterdir() if path.name.isdecimal()}

    def _read(self, number: int) -> PortRow | None:
        if self._folder is None:
            return None
        try:
            return PortRow(**json.loads((self._folder / str(number)).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def _write(self, number: int, row: PortRow) -> None:
        if self._folder is None:
            return
        with contextlib.suppress(OSError):  # a full disk: known until the next restart
            make_private(self._folder)
            draft = self._folder / f".{number}.{os.getpid()}"
            draft.write_text(json.dumps(asdict(row)), encoding="ascii")
            draft.replace(self._folder / str(number))


def is_listening(port: int) -> bool:
    """Return whether a process of this machine listens at a port."""
    for path in SOCKETS:
        with contextlib.suppress(OSError):
            for line in path.read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    return True
    return False
