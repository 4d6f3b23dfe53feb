"""The ports at which the tasks of a gang meet (`MASTER_PORT` and those after it).

A program binds its port seconds after it was chosen, and nothing can hold it meanwhile: a port bound by
the daemon would be refused to programs that do not set SO_REUSEADDR. Instead, the rows of live jobs are
remembered, on disk as well, so that no two jobs get one and a restarted daemon gives a gang's next task
the same one; and a gang whose executor finds a stranger at its port starts again at another.
"""

import contextlib
import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from muster.daemon.tasks.node_place import NodePlace
from muster.executors.environment import free_row, unused_row
from muster.executors.private_folder import make_private


@dataclass(frozen=True, slots=True)
class PortRow:
    """A job's ports: the first, and how many follow each other."""

    generation: int
    first: int
    count: int
    host: str = ""
    """Of the task that binds the first."""
    restarts: int = 0
    """Restarts of the gang as a whole before it was given."""

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

    def of(
        self, number: int, generation: int, count: int, master: NodePlace, restarts: int = 0
    ) -> PortRow:
        """Return the row of a gang's generation and restart: workers of the previous one may still use
        theirs."""
        known = self._rows.get(number)
        if known is None or (known.generation, known.restarts) != (generation, restarts):
            first = self._first(count, master)
            known = PortRow(generation, first, count, master.host, restarts)
            self._rows[number] = known
            self._write(number, known)
        return known

    def _first(self, count: int, master: NodePlace) -> int:
        """Choose a row that no other gang on the master's host has."""
        rows = self._rows.values()
        used = {port for row in rows if row.host in (master.host, "") for port in row.ports}
        if master.here:
            return free_row(master.host, count, used)
        return unused_row(master.ports, count, used)  # its executor finds out whether they are free

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
            content = json.loads((self._folder / str(number)).read_bytes())
            content.pop("master", None)  # of an earlier release
            return PortRow(**content)
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
