"""A job that was submitted, to wait for, look at and stop."""

import time
from collections.abc import Iterator
from typing import Protocol

from muster.wire.records import OVER, JobRecord


class Asks(Protocol):
    """What a handle needs of its client."""

    def record(self, which: str) -> JobRecord:
        """A job as it is now."""
        ...

    def await_end(self, which: str, until: float | None) -> None:
        """Return when something about the job may have ended; TimeoutError after `until`."""
        ...

    def logs(self, which: str | int, task: str | None = None, follow: bool = False) -> Iterator[str]:
        """What it prints."""
        ...

    def stop(self, which: str | int) -> JobRecord:
        """Stop it."""
        ...

    def resize(
        self, which: str | int, least: int, most: int | None = None, servers: int | None = None
    ) -> JobRecord:
        """Ask for other numbers."""
        ...


class Handle:
    """A job that was submitted."""

    def __init__(self, client: Asks, record: JobRecord) -> None:
        self._client, self._record = client, record

    @property
    def number(self) -> int:
        """The daemon's number of it."""
        return self._record.number

    @property
    def name(self) -> str:
        """Its name."""
        return self._record.name

    def record(self) -> JobRecord:
        """How it is now."""
        if self._record.status not in OVER:
            self._record = self._client.record(str(self.number))
        return self._record

    def wait(self, timeout: float | None = None) -> JobRecord:
        """Wait until it is over; TimeoutError if that takes longer."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.record().status not in OVER:
            self._client.await_end(str(self.number), until)
        return self._record

    def logs(self, task: str | None = None, follow: bool = True) -> Iterator[str]:
        """What it prints, line by line, to its end."""
        return self._client.logs(self.number, task, follow)

    def stop(self) -> JobRecord:
        """End it."""
        return self._client.stop(self.number)

    def resize(self, least: int, most: int | None = None, servers: int | None = None) -> JobRecord:
        """Ask for other numbers of workers: exactly `least`, or from there to `most`."""
        return self._client.resize(self.number, least, most, servers)

    def __repr__(self) -> str:
        return f"<job {self.number} {self.name!r}, {self._record.status}>"


class InsideHandle(Handle):
    """The handle of a training that this very process has run, as a task of its job."""

    def record(self) -> JobRecord:
        """As it ended here."""
        return self._record

    def logs(self, task: str | None = None, follow: bool = True) -> Iterator[str]:
        """Nothing: it was printed here."""
        return iter(())

    def stop(self) -> JobRecord:
        """It has ended."""
        return self._record

    def resize(self, least: int, most: int | None = None, servers: int | None = None) -> JobRecord:
        """It has ended."""
        return self._record
