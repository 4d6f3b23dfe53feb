"""The future of a function that runs as a job."""

import asyncio
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from muster.client.errors import ClientError
from muster.client.handles.handle import Handle
from muster.functions.errors import FunctionError
from muster.functions.outcome import values_of
from muster.wire.api.records import OVER, JobRecord

T = TypeVar("T")


class FunctionFuture(Future[T]):
    """A future of the standard library, and the job behind it.

    `cancel()` stops the job, also one that runs. `await` works, too; giving up an `await` leaves the
    job running.
    """

    def __init__(
        self, name: str, folder: Path, fetch: Callable[[JobRecord, Path], None] | None = None
    ) -> None:
        """`fetch`: copies results into the folder; None: the job has written them there."""
        super().__init__()
        self.name, self.folder, self._fetch = name, folder, fetch
        self._job: Handle | None = None
        self._runs = False
        self._values: list[T] = []

    @property
    def job(self) -> Handle:
        """The job; ClientError while the executor holds it back."""
        if self._job is None:
            raise ClientError(0, "No Job", f"{self.name} is not submitted yet")
        return self._job

    def running(self) -> bool:
        """Return whether its job runs."""
        return self._runs and not self.done()

    def cancel(self) -> bool:
        """Stop the job; return False if it has ended."""
        if not super().cancel():
            return False
        self.set_running_or_notify_cancel()  # tell those who wait
        if self._job is not None:
            self._job.stop()
        return True

    def results(self, timeout: float | None = None) -> list[T]:
        """Return what each worker returned, by rank; `result()` is the first's."""
        self.result(timeout)
        return list(self._values)

    def logs(self, follow: bool = True) -> Iterator[str]:
        """Yield its job's output by line, until it ends."""
        return self.job.logs(follow=follow)

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.shield(asyncio.wrap_future(self)).__await__()

    def __repr__(self) -> str:
        state = "running" if self.running() else self._state.lower().partition("_")[0]
        number = f"job {self._job.number}" if self._job is not None else "no job yet"
        return f"<{self.name}, {number}, {state}>"

    # --- for the executor ---

    def become(self, job: Handle) -> None:
        """Take the job that was submitted for it."""
        self._job = job
        if self.cancelled():  # while it was being submitted
            job.stop()

    def settle(self, found: JobRecord | ClientError) -> None:
        """Note that the job runs, or finish with what came of it."""
        if isinstance(found, JobRecord) and found.status not in OVER:
            self._runs = self._runs or found.started is not None
            return
        try:
            if isinstance(found, ClientError):
                raise FunctionError(f"{self.name}: {found}", self._job.number if self._job else 0)
            if found.status == "cancelled":
                self.cancel_here()
                return
            if self._fetch is not None:
                self._fetch(found, self.folder)
            values = values_of(self.folder, found)
        except BaseException as error:
            self.fail(error)
        else:
            self._values = values
            with suppress(InvalidStateError):  # cancelled meanwhile
                self.set_result(values[0])

    def fail(self, error: BaseException) -> None:
        """Raise this in who asks for the result, unless it was cancelled meanwhile."""
        with suppress(InvalidStateError):
            self.set_exception(error)

    def cancel_here(self) -> None:
        """Be cancelled, as its job already is."""
        if super().cancel():
            self.set_running_or_notify_cancel()
