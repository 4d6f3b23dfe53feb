"""NCCL's ring for workers with their own GPUs; the ballot uses the gloo group beside it.

A kernel that waits for a dead peer ends only by an abort, and all that is queued behind it waits, too.
So (1) no update is queued before the sums are known to be complete, (2) a watching thread aborts as
soon as a member is gone, (3) communicators are connected when a formation is built.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed

from muster.runtime.comm.awaited import start_awaited
from muster.runtime.comm.group import GlooGroup, Work
from muster.runtime.comm.ring import Ring
from muster.runtime.comm.watch import Watch
from muster.runtime.errors import BrokenGroupError

LOOK = 5e-5
"""Seconds between two looks at the device: a blocking wait could not be ended by an abort."""
ABORTED = 10.0
"""Seconds for an abort, which frees what the device holds; training goes on without it afterwards."""
NEVER = timedelta(days=365)
"""Torch's own deadline. At ours, its watchdog would sleep for a minute before it can be ended, and who
drops the group would wait for it with the interpreter's lock held. The watch sees to deadlines."""
_OURS = {
    # Torch's own watchdog would end the process of a survivor.
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
}


class Nccl(Ring):
    """All-reduces on the device; the last flat, the ballot, may be in host memory."""

    def __init__(
        self, group: GlooGroup, flats: Sequence[Tensor], device: torch.device | None = None
    ) -> None:
        """Meet the members of the gloo group at its store; each uses its own device."""
        super().__init__(group, flats)
        if not distributed.is_nccl_available():
            raise BrokenGroupError("this torch has no NCCL: install a CUDA build, or use another sync")
        if not all(flat.is_cuda for flat in flats[:-1]):
            raise BrokenGroupError("NCCL sums on GPUs only, and these gradients are in host memory")
        self._ballot: Work | None = None
        self._sums: list[Any] = []
        self._why = ""
        """Why the group is broken; empty: it is not."""
        self._ending = threading.Lock()
        self._aborting: threading.Thread | None = None
        module: Any = distributed
        self._sum = module.ReduceOp.SUM
        self._watch = Watch(group.store, self._break)
        self._pg: Any = None
        try:
            _within(group.deadline, lambda: self._connect(module, device or flats[0].device))
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        super().begin()
        self._sums.clear()

    def put(self, bucket: int) -> None:
        """Start summing a bucket, behind what the current stream has queued."""
        flat = self._flats[bucket]
        if bucket == len(self._flats) - 1:
            self._ballot = self._group.allreduce(flat)
            return
        self._sums.append(self.start(lambda pg: pg.allreduce([flat], self._sum)))

    def start(self, call: Callable[[Any], Any]) -> Any:
        """Start an operation of torch's process group, behind what the current stream has queued."""
        pg = self._pg
        if pg is None:
            raise BrokenGroupError(f"group {self._group.name} is closed")
        try:
            work = call(pg)
        except RuntimeError as problem:
            raise BrokenGroupError(str(problem)) from problem
        self._watch.wait_from_now()
        return work

    def drain(self) -> None:
        """Wait until the device has done what the current stream has queued."""
        event = torch.cuda.Event()
        event.record()
        while not event.query() and not self._why:
            time.sleep(LOOK)
        if self._why:
            raise BrokenGroupError(self._why)

    def finish(self) -> None:
        """Wait until every bucket holds its sum, and not only its place in the device's queue."""
        if self._ballot is not None:
            self._ballot.wait(time.monotonic() + self._group.deadline)
        self._watch.wait_from_now()
        for work in self._sums:
            self._await(work)
        self._watch.done()
        self._sums.clear()

    def close(self) -> None:
        self._watch.close()
        self._break(f"group {self._group.name} is closed")

    def _connect(self, module: Any, device: torch.device) -> None:
        """Connect to all members now: the first sum would, and nobody could end its waiting."""
        os.environ.update(_OURS)
        group = self._group
        options = module.ProcessGroupNCCL.Options()
        options._timeout = NEVER
        store = module.PrefixStore("nccl", group.store)
        pg = module.ProcessGroupNCCL(store, group.rank, group.size, options)
        with self._ending:
            if self._why:
                pg.abort()
                raise BrokenGroupError(self._why)
            self._pg = pg
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
            probe = torch.ones(1, device=device)
            self._await(pg.allreduce([probe], self._sum))

    def _await(self, work: Any) -> None:
        """Wait for a sum on the device, as long as the group is whole."""
        try:
            work.wait()  # in the device's queue, not here
            done = torch.cuda.Event()
            done.record()
            while not done.query() and not self._why:
                time.sleep(LOOK)
        except RuntimeError as problem:
            raise BrokenGroupError(str(problem)) from problem
        if self._why:  # an abort ends kernels without their sums; its reason is known before
            raise BrokenGroupError(self._why)

    def _break(self, why: str) -> None:
        """End all waiting, here and elsewhere; any thread."""
        with self._ending:
            self._why = self._why or why
            pg, self._pg = self._pg, None
            if pg is not None:
                self._aborting = start_awaited(pg.abort, "muster-abort")
        self._group.close()
        self._watch.close()
        if self._aborting is not None:
            self._aborting.join(ABORTED)


def _within(seconds: float, act: Callable[[], None]) -> None:
    """Do something that cannot be told when to give up, in a thread that can be given up."""
    problems: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            act()
        except BaseException as problem:
            problems.append(problem)
        done.set()

    start_awaited(run, "muster-nccl")
    if not done.wait(seconds):
        raise BrokenGroupError(f"NCCL did not connect within {seconds:g} s")
    for problem in problems:
        if isinstance(problem, RuntimeError):
            raise BrokenGroupError(f"NCCL could not connect: {problem}") from problem
        raise problem
