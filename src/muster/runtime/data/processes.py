"""Processes that load samples ahead of time, and live as long as the training.

Each takes whole batches, as torch's DataLoader does, and sends them through shared memory. They are
forked before this process reads a sample (a file opened before a fork is shared, position and all) or
starts a thread, and stay when shares and members change. A loader keeps the samples of its last
batches: if the shares change, the same loader is asked again and reads only what it lacks.

Generators are seeded by (seed, epoch, sample), so a sample does not depend on who loads it.
"""

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.multiprocessing
from torch import Tensor
from torch.utils.data._utils import worker as torch_worker

from muster.runtime.data.fingerprint import Fingerprint, fingerprint
from muster.runtime.data.loader import BatchSource, numbers, pinned
from muster.runtime.data.reader import Collate, SampleReader, told
from muster.runtime.data.samples import mixed_seed
from muster.runtime.errors import BadTrainingError
from muster.runtime.step.malloc import keep_heap

PR_SET_PDEATHSIG = 1
"""Linux prctl(2): the signal on the parent's death."""
CLOSING = 5.0
"""Seconds for loaders to finish their batch when the training ends."""

LoaderInit = Callable[[int], None]
"""Called in each loader process with its number, as torch's worker_init_fn."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Ids of a batch to load, or None: the dataset's fingerprint."""

    number: int
    ids: tuple[int, ...] | None
    epoch: int = 0


@dataclass(slots=True)
class _Process:
    """One loader process, and its requests that may be asked for again."""

    process: Any
    connection: Connection
    asked: deque["_Asked"]
    waiting: dict[int, "Future[Any]"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Asked:
    ids: tuple[int, ...]
    epoch: int
    batch: "Future[Any]"


class LoaderProcesses(BatchSource):
    """Loads batches of a dataset in `count` processes, `prefetch` batches ahead each."""

    def __init__(
        self,
        dataset: Any,
        collate: Collate | None = None,
        count: int = 1,
        seed: int = 0,
        pin: bool = False,
        prefetch: int = 2,
        init: LoaderInit | None = None,
        context: Any = None,
    ) -> None:
        """`pin`: into memory that a GPU can copy from. `context`: how processes are started, as torch's
        multiprocessing_context; "fork" where the system has it."""
        self.depth, self._pin = count * max(1, prefetch), pin
        self._reader, self._init, self._seed = SampleReader(dataset, collate, seed, True), init, seed
        self._keep, self._context, self._count = max(1, prefetch) + 1, context, count
        self._loaders: list[_Process] = []
        self._number = self._turn = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def load(self, ids: Tensor | Sequence[int], epoch: int = 0) -> Any:
        return self._ask(tuple(numbers(ids)), epoch).result()

    def expect(self, ids: Tensor | Sequence[int], epoch: int = 0) -> None:
        wanted = tuple(numbers(ids))
        if wanted:
            self._ask(wanted, epoch)

    def fingerprint(self) -> Fingerprint:
        found: Fingerprint = self._send(self._started()[0], None, 0).result()
        return found

    def close(self) -> None:
        """End the processes, after the batch they are loading."""
        self._closed = True
        atexit.unregister(self.close)
        for loader in self._loaders:
            with contextlib.suppress(OSError):
                loader.connection.send(None)
        until = time.monotonic() + CLOSING
        for loader in self._loaders:
            loader.process.join(max(0.0, until - time.monotonic()))
            if loader.process.is_alive():
                loader.process.kill()
                loader.process.join()
        if self._thread is not None:
            self._thread.join()
        for loader in self._loaders:
            loader.connection.close()
        self._loaders = []

    def _ask(self, ids: tuple[int, ...], epoch: int) -> "Future[Any]":
        """Return the batch in the making; ask the loader that has most of it, else the next one."""
        best, found = 0, None
        for loader in self._started():
            for asked in loader.asked:
                if asked.epoch != epoch:
                    continue
                if asked.ids == ids:
                    return asked.batch
                common = len(set(asked.ids).intersection(ids))
                if common > best:
                    best, found = common, loader
        if found is None:
            found = self._loaders[self._turn % len(self._loaders)]
            self._turn += 1
        batch = self._send(found, ids, epoch)
        found.asked.append(_Asked(ids, epoch, batch))
        return batch

    def _send(self, loader: _Process, ids: tuple[int, ...] | None, epoch: int) -> "Future[Any]":
        batch: Future[Any] = Future()
        with self._lock:
            self._number += 1
            loader.waiting[self._number] = batch
        try:
            loader.connection.send(LoadRequest(self._number, ids, epoch))
        except OSError:
            self._lose(loader)
        return batch

    def _started(self) -> list[_Process]:
        """Start the processes, at the first use."""
        if not self._loaders:
            if self._closed:
                raise BadTrainingError("the training's data is closed")
            for number in range(self._count):
                self._loaders.append(self._start(number))
            # Before multiprocessing's own handler, which sends the SIGTERM that loaders ignore.
            atexit.register(self.close)
            # After the forks: a fork copies no other thread, but may copy a lock it holds.
            self._thread = threading.Thread(target=self._receive, name="muster-load", daemon=True)
            self._thread.start()
        return self._loaders

    def _start(self, number: int) -> _Process:
        context = _context(self._context)
        ours, theirs = context.Pipe()
        info = (number, self._count, mixed_seed(self._seed, number))
        others = [loader.connection for loader in self._loaders]
        parent = os.getpid() if context.get_start_method() in ("fork", "spawn") else 0
        process = context.Process(
            target=_load_on_demand,
            args=(
                theirs,
                ours,
                others,
                self._reader,
                self._keep,
                self._init,
                info,
                parent,
            ),
            name=f"muster-loader-{number}",
            daemon=True,
        )
        try:
            process.start()
        except (AttributeError, TypeError) as problem:  # a dataset that cannot be pickled
            raise BadTrainingError(
                f"the dataset cannot be sent to a loader process: {told(problem)}; use loaders=0"
            ) from problem
        theirs.close()
        return _Process(process, ours, deque(maxlen=self._keep))

    def _receive(self) -> None:
        """Receive batches and notice deaths, until all loaders have ended (thread)."""
        alive = {loader.connection: loader for loader in self._loaders}
        while alive:
            for ready in wait(list(alive)):
                loader = alive[ready]  # type: ignore[index]
                if not self._receive_one(loader):
                    del alive[loader.connection]

    def _receive_one(self, loader: _Process) -> bool:
        """Take a loader's next answer; False if it is gone."""
        try:
            number, problem, batch = loader.connection.recv()
        except (EOFError, OSError):
            self._lose(loader)
            return False
        with self._lock:
            future = loader.waiting.pop(number)
        try:
            if problem is None:
                future.set_result(pinned(batch) if self._pin else batch)
            else:
                future.set_exception(BadTrainingError(problem))
        except Exception as failed:
            future.set_exception(failed)
        return True

    def _lose(self, loader: _Process) -> None:
        """Fail the requests of a loader that died, and those to come."""
        with self._lock:
            waiting, loader.waiting = loader.waiting, {}
        if self._closed:
            problem = BadTrainingError("the training's data is closed")
        else:
            loader.process.join(CLOSING)
            problem = BadTrainingError(_how_ended(loader.process))
        for future in waiting.values():
            future.set_exception(problem)


def _context(given: Any) -> Any:
    if given is None:
        given = "fork" if "fork" in torch.multiprocessing.get_all_start_methods() else "spawn"
    return torch.multiprocessing.get_context(given) if isinstance(given, str) else given


def _how_ended(process: Any) -> str:
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        why = ": out of memory? Take fewer loaders=, or smaller samples" if code == -9 else ""
        return f"{process.name} (process {process.pid}) was killed by {name}{why}"
    return f"{process.name} (process {process.pid}) ended with exit code {code} while it loaded samples"


# in the loader process


def _load_on_demand(
    connection: Connection,
    parents: Connection,
    others: list[Connection],
    reader: SampleReader,
    keep: int,
    init: LoaderInit | None,
    info: tuple[int, int, int],
    parent: int,
) -> None:
    """Answer requests until the parent says so or is gone."""
    for inherited in (parents, *others):
        inherited.close()  # or the parent's end would never show
    _settle(parent)
    number, count, seed = info
    torch_worker._worker_info = torch_worker.WorkerInfo(
        id=number, num_workers=count, seed=seed, dataset=reader.dataset
    )
    problem = ""
    try:
        if init is not None:
            init(number)
    except Exception as failed:
        problem = f"loader_init failed in loader {number}: {told(failed)}"
    kept: deque[tuple[int, dict[int, Any]]] = deque(maxlen=keep)
    with contextlib.suppress(EOFError, OSError):
        while (request := connection.recv()) is not None:
            answer = (problem, None) if problem else _answer(reader, kept, request)
            connection.send((request.number, *answer))


def _settle(parent: int) -> None:
    """Die with the parent (0: another process trains), leave signals to it, take one core."""
    if parent:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)  # it died before that call
    # The signals of a terminal and a launcher go to the whole group: the parent ends us.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)
    keep_heap()
    sys.excepthook = sys.__excepthook__


def _answer(
    reader: SampleReader, kept: deque[tuple[int, dict[int, Any]]], request: LoadRequest
) -> tuple[str | None, Any]:
    """Return (problem, batch) for a request."""
    try:
        if request.ids is None:
            return None, fingerprint(reader.dataset)
        got: dict[int, Any] = {}
        for epoch, samples in kept:
            if epoch == request.epoch:
                got.update((i, samples[i]) for i in request.ids if i in samples)
        missing = [i for i in dict.fromkeys(request.ids) if i not in got]
        got.update(zip(missing, reader.samples(missing, request.epoch), strict=True))
        kept.append((request.epoch, got))
        return None, reader.batch(request.ids, [got[i] for i in request.ids])
    except BadTrainingError as problem:
        return str(problem), None
    except Exception as problem:
        return told(problem), None
