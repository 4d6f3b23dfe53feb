"""Runs Python functions as jobs, with the interface of `concurrent.futures`."""

import contextlib
import re
import shutil
import sys
import threading
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from muster.client.client import Client
from muster.client.connecting.settings import data_home
from muster.client.errors import ClientError
from muster.functions.call import HUGE, name_of, write_call
from muster.functions.future import FunctionFuture
from muster.functions.progress import progress_of, visible
from muster.functions.travel import fetch_results, sent

P = ParamSpec("P")
T = TypeVar("T")

KEPT = 7 * 86_400.0
"""s to keep the files of a call: as long as a daemon keeps its job's logs."""
_LONGEST_NAME = 40
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


class FunctionExecutor(futures.Executor):
    """Runs each call as a job: `submit`, `map` and `shutdown` are those of the standard library.

    `devices`: workers with a device each, as in a job file; with several, each runs the function, and
    the result is the first's. `at_most`: live jobs at once. `python`: the interpreter, by default this
    one. `folder`: where calls and results are kept, which the nodes must see too unless `ship` sends
    them over the daemon, as by default to one on another machine. Other fields are those of a job file.
    `progress`: whether `map` shows how far it is; by default where somebody can see it.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        devices: str | int = 1,
        at_most: int | None = None,
        python: str | None = None,
        folder: str | Path | None = None,
        ship: bool | None = None,
        progress: bool | None = None,
        **fields: Any,
    ) -> None:
        if at_most is not None and at_most < 1:
            raise ValueError(f"at_most must be at least 1, not {at_most}")
        if client is None:
            from muster.functions.default import default_client

            client = default_client()
        self._client = client
        self._fields = {"devices": devices, **fields}
        self._at_most = at_most
        self._python = python or sys.executable
        self._folder = Path(folder).absolute() if folder is not None else data_home() / "functions"
        self._ships = client.is_elsewhere if ship is None else ship
        self._shows = visible() if progress is None else progress
        self._lock = threading.RLock()
        self._held: deque[FunctionFuture[Any]] = deque()
        """Calls beyond `at_most`, in the order of their submission."""
        self._live: set[FunctionFuture[Any]] = set()
        self._starting = False
        self._open = True
        self._tidied = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> FunctionFuture[T]:
        """Run a function as a job; return its future."""
        with self._lock:
            if not self._open:
                raise RuntimeError("cannot submit after shutdown")
            self._tidy()
        name = name_of(fn)
        fetch = partial(fetch_results, self._client) if self._ships else None
        future: FunctionFuture[T] = FunctionFuture(name, self._call_folder(), fetch)
        size = write_call(future.folder, fn, args, kwargs)
        if size > HUGE:
            told = f"{name} and its arguments are {size / 1e6:,.0f} MB; pass the path of a file instead"
            warnings.warn(told, ResourceWarning, stacklevel=2)
        future.add_done_callback(self._ended)
        with self._lock:
            self._held.append(future)
        self._start_next()
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        return_exceptions: bool = False,
    ) -> Iterator[T]:
        """Run the function on each item; yield the results in their order.

        `timeout`: s until TimeoutError, from this call on. `chunksize`: items of one job.
        `return_exceptions`: yield an exception in place of the result, and go on, as `asyncio.gather`;
        otherwise the first is raised, and what has not started is cancelled.
        """
        until = None if timeout is None else time.monotonic() + timeout
        items: Iterable[Any] = zip(*iterables, strict=False)
        if chunksize <= 1:
            single = [self.submit(fn, *each) for each in items]
            return self._results(single, until, return_exceptions)
        source = iter(items)
        parts = iter(lambda: list(islice(source, chunksize)), [])
        chunks: list[FunctionFuture[Any]] = [
            self.submit(_run_chunk, fn, part, return_exceptions) for part in parts
        ]
        return chain.from_iterable(self._results(chunks, until, False))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; `wait` for all, or `cancel_futures` that have not started."""
        with self._lock:
            self._open = False
            left = [*self._held, *self._live]
        if cancel_futures:
            for future in left:
                if not future.running():
                    future.cancel()
        if wait:
            futures.wait(left)

    def _results(
        self, calls: list[FunctionFuture[T]], until: float | None, keep_errors: bool
    ) -> Iterator[T]:
        """Yield the results. If one raises, or nobody reads on, cancel what has not started."""
        with progress_of(calls) if self._shows else contextlib.nullcontext():
            try:
                for future in calls:
                    left = None if until is None else until - time.monotonic()
                    error = future.exception(left) if keep_errors else None
                    yield future.result(left) if error is None else cast(T, error)
            finally:
                for future in calls:
                    if not future.running():
                        future.cancel()

    # --- jobs ---

    def _start_next(self) -> None:
        """Submit what `at_most` allows; one thread at a time, which sees what others add meanwhile."""
        with self._lock:
            if self._starting:
                return
            self._starting = True
        while True:
            with self._lock:
                full = self._at_most is not None and len(self._live) >= self._at_most
                if full or not self._held:
                    self._starting = False
                    return
                future = self._held.popleft()
                if future.done():
                    continue
                self._live.add(future)
            self._start(future)

    def _start(self, future: FunctionFuture[Any]) -> None:
        try:
            job = self._client.submit(self._record(future), key=future.folder.name)
        except ClientError as error:
            future.fail(error)
            return
        future.become(job)
        self._client.watcher.watch(job.number, future.settle)

    def _ended(self, future: Any) -> None:
        """Make room for the next, in whichever thread notes the end."""
        with self._lock:
            self._live.discard(future)
        if future._job is not None:
            self._client.watcher.forget(future._job.number, future.settle)
        self._start_next()

    def _record(self, future: FunctionFuture[Any]) -> Mapping[str, Any]:
        plain = _NOT_IN_NAMES.sub("-", future.name.rpartition(".")[2]).strip("-_") or "function"
        return {
            # Live jobs of one user differ by name.
            "name": f"{plain[:_LONGEST_NAME]}-{future.folder.name[:8]}",
            "application": plain[:_LONGEST_NAME],
            "command": [self._python, "-m", "muster.functions.task"],
            # As with processes of the library's executor, what is killed is not run again unasked.
            "losses": 0,
            **self._fields,
            **self._where(future.folder),
        }

    def _where(self, folder: Path) -> dict[str, Any]:
        """Return where the job finds its call."""
        if self._ships:
            return {"ship": sent(self._client, folder), "folder": None}
        return {"folder": str(folder)}

    def _call_folder(self) -> Path:
        folder = self._folder / uuid.uuid4().hex
        folder.mkdir(parents=True, mode=0o700)
        return folder

    def _tidy(self) -> None:
        """Delete the files of old calls, once."""
        if self._tidied or not self._folder.is_dir():
            return
        self._tidied = True
        old = time.time() - KEPT
        for folder in self._folder.iterdir():
            with contextlib.suppress(OSError):
                if len(folder.name) == 32 and folder.stat().st_mtime < old:
                    shutil.rmtree(folder)


def _run_chunk(fn: Callable[..., T], part: list[tuple[Any, ...]], keep_errors: bool) -> list[Any]:
    """In the job: run the function on each item."""
    return [_caught(fn, each) if keep_errors else fn(*each) for each in part]


def _caught(fn: Callable[..., T], args: tuple[Any, ...]) -> T | Exception:
    try:
        return fn(*args)
    except Exception as error:
        return error
