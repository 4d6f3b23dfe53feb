"""A submitted job, to wait for, inspect and stop."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from muster.wire.records import OVER, JobRecord

if TYPE_CHECKING:
    from muster.client.client import Client


class Handle:
    def __init__(self, client: "Client", record: JobRecord) -> None:
        self._client, self._record = client, record

    @property
    def number(self) -> int:
        return self._record.number

    @property
    def name(self) -> str:
        return self._record.name

    def record(self) -> JobRecord:
        """Return its current state."""
        if self._record.status not in OVER:
            self._record = self._client.record(str(self.number))
        return self._record

    def wait(self, timeout: float | None = None) -> JobRecord:
        """Wait until it has finished; TimeoutError if that takes longer than `timeout` s."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.record().status not in OVER:
            self._client.await_end(str(self.number), until)
        return self._record

    def logs(self, task: str | None = None, follow: bool = True) -> Iterator[str]:
        """Yield its output by line, until it ends."""
        return self._client.logs(self.number, task, follow)

    def stop(self, *, force: bool = False) -> JobRecord:
        """Stop it; `force`: kill its tasks at once."""
        return self._client.stop(self.number, force=force)

    def hold(self) -> JobRecord:
        """Keep it from running until it is released."""
        return self._client.hold(self.number)

    def release(self) -> JobRecord:
        """Let it run again."""
        return self._client.release(self.number)

    def requeue(self) -> JobRecord:
        """Stop it and queue it again."""
        return self._client.requeue(self.number)

    def set_priority(self, priority: int) -> JobRecord:
        """Change its priority; higher runs sooner."""
        return self._client.set_priority(self.number, priority)

    def set_until(self, until: str) -> JobRecord:
        """Change when its loss ends it ("converged 0.5%"); empty: it no longer does."""
        return self._client.set_until(self.number, until)

    def resize(self, least: int, most: int | None = None, servers: int | None = None) -> JobRecord:
        """Change how many workers it asks for: exactly `least`, or from `least` to `most`."""
        return self._client.resize(self.number, least, most, servers)

    def __repr__(self) -> str:
        return f"<job {self.number} {self.name!r}, {self._record.status}>"


class InsideHandle(Handle):
    """The handle of a training that this process has run itself, as a task of its job."""

    def record(self) -> JobRecord:
        """Return how it ended."""
        return self._record

    def logs(self, task: str | None = None, follow: bool = True) -> Iterator[str]:
        """Yield nothing: it printed here."""
        return iter(())

    def stop(self, *, force: bool = False) -> JobRecord:
        """Do nothing: it has ended."""
        return self._record

    def hold(self) -> JobRecord:
        """Do nothing: it has ended."""
        return self._record

    def release(self) -> JobRecord:
        """Do nothing: it has ended."""
        return self._record

    def requeue(self) -> JobRecord:
        """Do nothing: it has ended."""
        return self._record

    def set_priority(self, priority: int) -> JobRecord:
        """Do nothing: it has ended."""
        return self._record

    def set_until(self, until: str) -> JobRecord:
        """Do nothing: it has ended."""
        return self._record

    def resize(self, least: int, most: int | None = None, servers: int | None = None) -> JobRecord:
        """Do nothing: it has ended."""
        return self._record
