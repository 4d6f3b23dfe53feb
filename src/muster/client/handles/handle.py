"""A submitted job, to wait for, inspect and stop."""

import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from muster.client.errors import ClientError
from muster.client.handles.tracked import Tracked
from muster.wire.api.records import OVER, JobRecord

if TYPE_CHECKING:
    from muster.client.client import Client


class Handle(Tracked[JobRecord]):
    """`job = client.submit(...)`."""

    def __init__(self, client: "Client", record: JobRecord) -> None:
        super().__init__(record)
        self._client = client

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

    def __await__(self) -> Generator[Any, None, JobRecord]:
        """Wait in an event loop until it has finished; all jobs of a client share one stream for it."""
        return self._ended().__await__()

    async def _ended(self) -> JobRecord:
        import asyncio  # slow to import: most commands need none

        ended: Future[JobRecord] = Future()

        def told(found: JobRecord | ClientError) -> None:
            if isinstance(found, ClientError):
                ended.set_exception(found)
            elif found.status in OVER:
                ended.set_result(found)

        if self._record.status not in OVER:
            watcher = self._client.watcher
            try:
                await asyncio.to_thread(watcher.watch, self.number, told)  # it sends a request
                self._record = await asyncio.wrap_future(ended)
            finally:
                watcher.forget(self.number, told)
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


def parents_numbered(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job with numbers for the handles that it comes after: `[prep]`, `{prep: "any"}`."""
    after = record.get("after")
    if isinstance(after, Tracked):
        after = after.number
    elif isinstance(after, Mapping):
        after = {_number(each): when for each, when in after.items()}
    elif isinstance(after, list | tuple):
        after = [_number(each) for each in after]
    return {**record, "after": after} if after is not None else dict(record)


def _number(parent: object) -> Any:
    return parent.number if isinstance(parent, Tracked) else parent
