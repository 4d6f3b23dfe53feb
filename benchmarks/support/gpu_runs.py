"""Runs of support/gpu_train.py for benchmarks/runtime_gpu.py, and what is read from their records."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from muster.runtime.launch.launcher import Launch
from muster.runtime.launch.tasks import Tasks
from support.gpu_train import WARM, Record

SCRIPT = Path(__file__).with_name("gpu_train.py")
PATIENCE = 150.0
"""Seconds for one run: each is meant to take some ten."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of a training."""

    net: str
    width: int
    pixels: int
    batch: int
    samples: int

    def arguments(self, steps: int) -> list[str]:
        """For the script."""
        named = {"net": self.net, "width": self.width, "pixels": self.pixels}
        named |= {"batch": self.batch, "samples": self.samples, "steps": steps}
        return [word for name, value in named.items() for word in (f"--{name}", str(value))]


class Runs:
    """Starts trainings and reads what they wrote; closes its fork server and folder at the end."""

    def __init__(self, device: str) -> None:
        self.device = device
        # Threads of others on the same few cores would be measured, not the loop: one each.
        self._threads = 1 if device == "cpu" else None
        self._environ = os.environ | ({"OMP_NUM_THREADS": "1"} if self._threads else {})
        self._folder = tempfile.TemporaryDirectory(prefix="muster-gpu-")
        self._tasks = Tasks()
        self._count = 0
        self.threads_at_fork = self._tasks.wait_loaded().threads
        """Of the process that tasks are forked from: a fork is safe with one."""

    def close(self) -> None:
        """End the fork server."""
        self._tasks.close()
        self._folder.cleanup()

    def file(self, name: str) -> str:
        """A path of this name that no other run uses."""
        self._count += 1
        return str(Path(self._folder.name) / f"{self._count}-{name}")

    def plain(self, size: Size, steps: int, *more: str) -> Record:
        """The loop without Muster, in a process of its own."""
        path = self.file("plain")
        words = [*size.arguments(steps), "--record", path, "--plain", "--device", self.device, *more]
        command = [sys.executable, str(SCRIPT), *words]
        subprocess.run(command, check=True, timeout=PATIENCE, env=self._environ)
        return read(path)["plain"]

    def muster(
        self,
        size: Size,
        steps: int,
        devices: Sequence[str],
        *more: str,
        threads: int | None = None,
        balance: bool = True,
        replace: bool = False,
        deadline: float = 30.0,
        drive: Callable[[Launch], None] = lambda _: None,
    ) -> dict[str, Record]:
        """One worker for each device; `drive` may change their number meanwhile. Records by task."""
        path = self.file("muster")
        said: list[str] = []
        with Launch(
            SCRIPT,
            [*size.arguments(steps), "--record", path, *more],
            workers=len(devices),
            devices=devices,
            threads=threads or self._threads,
            balance=balance,
            replace=replace,
            deadline=deadline,
            on_output=lambda task, line: said.append(f"{task}: {line}"),
            tasks=self._tasks,
        ) as job:
            try:
                drive(job)
                outcome = job.wait(PATIENCE)
                error = outcome.error and f"{outcome.error}\n{outcome.history.trace}"
            except Exception as problem:  # what the tasks said is the better half of the message
                error = f"{type(problem).__name__}: {problem}"
        if error:
            raise RuntimeError("\n".join([error, *said[-20:]]))
        return read(path)


def read(path: str) -> dict[str, Record]:
    """The records of a run, by task."""
    place = Path(path)
    found = [
        Record(**json.loads(each.read_text())) for each in place.parent.glob(f"{place.name}.*.json")
    ]
    return {record.task: record for record in sorted(found, key=lambda record: record.task)}


def rate(record: Record) -> float:
    """Samples/s of one worker after its first steps, the device idle at both ends."""
    return sum(record.rows[WARM:]) / (record.ended - record.warm)


def steps(record: Record) -> list[float]:
    """Seconds from each turn of the loop to the next."""
    return [after - before for before, after in zip(record.begun, record.begun[1:], strict=False)]


def typical(record: Record) -> float:
    """Seconds of a step in the second half of a run: by then the shares have settled."""
    found = steps(record)
    return statistics.median(found[len(found) // 2 :])


def difference(one: str, other: str) -> float:
    """The largest difference of two files' parameters, relative to the largest value of its tensor."""
    a, b = (torch.load(path, weights_only=True) for path in (one, other))
    return max(float((a[k] - b[k]).abs().max() / b[k].abs().max().clamp(min=1e-3)) for k in b)


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Stall:
    """Excess of steps over the typical step of their formation, in s.

    Its own formation: with another number of workers steps are of another length, which is no stall.
    """

    change: float
    """Of the last step before the members change and the first after, together; 0 where they do not."""
    slowest: float
    """Of any step between two times: a joiner that starts shares the device."""


def stall(record: Record, since: float, until: float) -> Stall:
    """What a change between two times cost the survivor."""
    found = steps(record)
    kinds: dict[int, list[float]] = {}
    for seconds, formation in zip(found, record.formations, strict=False):
        kinds.setdefault(formation, []).append(seconds)
    usual = {formation: statistics.median(seconds) for formation, seconds in kinds.items()}
    inside = [
        (formation, seconds - usual[formation])
        for seconds, formation, begun in zip(found, record.formations, record.begun, strict=False)
        if begun + seconds >= since and begun <= until
    ]
    change = [one[1] + two[1] for one, two in pairwise(inside) if one[0] != two[0]]
    return Stall(sum(change), max(excess for _, excess in inside))
