"""What a device does to a training: numbers of 16 bits that overflow, memory that runs out.

fp16    autocast with a GradScaler and clipping: one worker, two, one of them killed, one again; scales
        after every step, and parameters against a plain loop's in units of what fp16 rounds off
memory  micro_batch="auto" with memory for a part of the batch: what it finds against the most that
        fits, shrunk from two workers to one; parameters against a plain loop's with all the memory

Needs one NVIDIA GPU, torch and the standard library: PYTHONPATH=src python benchmarks/runtime_device.py
takes a minute. With --device cpu the same runs without a GPU, with memory that is pretended.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from muster.runtime.launch.launcher import Launch
from muster.runtime.launch.tasks import Tasks
from support.bars import bar, print_table
from support.gpu_runs import PATIENCE, difference

SCRIPT = Path(__file__).parent / "support" / "device_train.py"
STEPS, AHEAD = 60, 6
"""Steps of a training, and between two changes of its workers."""
ROUNDED, SCALES, DIFFERENCE, FOUND = 1.0, 4.0, 1e-3, 0.5
"""Targets: distance to plain fp16 over fp16's own distance to fp32; the scaler's scale over the plain
loop's, which sums more samples in 16 bits and overflows a doubling earlier (and a second doubling for
the step in which ours tries the next); parameters' relative difference; micro-batch found over the most
that fits."""
ROOM = 0.6
"""Of what the whole batch needs: what the small device has."""

Drive = Callable[[Launch], None]


@dataclass(frozen=True)
class Bench:
    """Where to run, and what to train."""

    device: str
    folder: str
    tasks: Tasks
    steps: int

    @property
    def _sizes(self) -> dict[str, int]:
        if self.device == "cpu":
            return {"width": 8, "pixels": 8, "batch": 16, "samples": 64}
        return {"width": 64, "pixels": 64, "batch": 512, "samples": 2048}

    @property
    def batch(self) -> int:
        """Samples of a step."""
        return self._sizes["batch"]

    def file(self, name: str) -> str:
        """A path in a folder that is removed at the end."""
        return f"{self.folder}/{name}"

    def alone(self, name: str, *words: str, way: str = "plain") -> Any:
        """Run a process of plain torch; return what it saw."""
        given = ("--way", way, "--device", self.device, "--save", self.file(name))
        command = [sys.executable, str(SCRIPT), *self._words(name), *given, *words]
        subprocess.run(command, check=True, timeout=PATIENCE)
        return json.loads(Path(f"{self.file(name)}.{way}.json").read_text())

    def muster(self, name: str, workers: int, drive: Drive, *words: str) -> list[Any]:
        """Run workers that `drive` changes; return what those saw that came to the end."""
        release = Path(self.file(f"{name}.release"))
        said: list[str] = []
        given = ("--save", self.file(name), "--release", str(release))
        with Launch(
            SCRIPT,
            [*self._words(name), *given, *words],
            workers=workers,
            devices=[self.device],
            threads=1 if self.device == "cpu" else None,
            on_output=lambda task, line: said.append(f"{task}: {line}"),
            tasks=self.tasks,
        ) as job:
            try:
                drive(job)
                release.touch()
                error = job.wait(PATIENCE).error
            except Exception as problem:  # what the tasks said is the better half of the message
                error = f"{type(problem).__name__}: {problem}"
        if error:
            raise RuntimeError("\n".join([error, *said[-20:]]))
        found = Path(self.folder).glob(f"{name}.worker-*.json")
        return [json.loads(path.read_text()) for path in sorted(found)]

    def _words(self, name: str) -> list[str]:
        sizes = {**self._sizes, "steps": self.steps}
        words = [word for key, value in sizes.items() for word in (f"--{key}", str(value))]
        return [*words, "--record", self.file(name)]


def fp16(bench: Bench) -> None:
    """Resized and killed, with overflows in the first steps."""
    there = bench.alone("half", "--fp16")
    bench.alone("whole")

    def drive(job: Launch) -> None:
        ahead(job)
        change(job, 2)
        job.kill("worker-0")
        job.wait_members(1, PATIENCE)
        ahead(job)

    (here,) = bench.muster("ours", 1, drive, "--fp16")
    scales = there["scales"]
    factor = max(_factor(scale, scales[step]) for step, scale in here["scales"].items())
    overflows = sum(after < before for before, after in pairwise(scales.values()))
    rounded = difference(bench.file("half"), bench.file("whole"))
    apart = difference(bench.file("ours"), bench.file("half"))
    row = (str(overflows), str(len(here["scales"])), f"{apart:.2g}", f"{rounded:.2g}")
    print_table("overflows compared apart rounded", [row])
    apart_at = [step for step, scale in here["scales"].items() if scale != scales[step]]
    rows = [(step, f"{scales[step]:g}", f"{here['scales'][step]:g}") for step in apart_at]
    print_table("step scale ours", rows)
    bar("fp16-scale-factor", factor, SCALES)
    bar("fp16-difference-over-rounding", apart / rounded, ROUNDED)
    print()


def _factor(one: float, other: float) -> float:
    """Return by how much the larger of two scales is larger."""
    return max(one, other) / min(one, other)


def memory(bench: Bench) -> None:
    """Two workers that become one, on devices with too little memory for the batch."""
    whole = bench.alone("unlimited")
    most = int(whole["peak"] * ROOM) if bench.device != "cpu" else bench.batch * 5 // 8
    fits = bench.alone("fits", "--most", str(most), way="largest")["rows"][-1]

    def drive(job: Launch) -> None:
        ahead(job)
        change(job, 1)

    (here,) = bench.muster("small", 2, drive, "--most", str(most))
    found = here["rows"][-1]
    apart = difference(bench.file("small"), bench.file("unlimited"))
    tried = [str(count) for count in dict.fromkeys(here["rows"])]
    row = (str(bench.batch), str(fits), str(found), f"{apart:.2g}", ">".join(tried))
    print_table("batch fits found apart tried", [row])
    bar("memory-found-over-fits", found / fits, FOUND, above=True)
    bar("memory-difference", apart, DIFFERENCE)
    print()


def ahead(job: Launch) -> None:
    """Wait for some more steps."""
    job.wait_step(job.look(lambda seen: seen.step) + AHEAD, PATIENCE)


def change(job: Launch, workers: int) -> None:
    """Resize, and go on for some steps."""
    job.resize(workers)
    job.wait_members(workers, PATIENCE)
    ahead(job)


PARTS: dict[str, Callable[[Bench], None]] = {"fp16": fp16, "memory": memory}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--device", default="cuda:0", help="cuda:0 (the default) or cpu")
    parser.add_argument("--quick", action="store_true", help="half the steps")
    options = parser.parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        parser.exit(2, "no GPU here: --device cpu shows whether the parts work\n")
    tasks = Tasks()
    with tempfile.TemporaryDirectory(prefix="muster-device-") as folder:
        bench = Bench(options.device, folder, tasks, STEPS // 2 if options.quick else STEPS)
        try:
            for name, part in PARTS.items():
                if options.only in (None, name):
                    begun = time.monotonic()
                    part(bench)
                    print(f"{name} took {time.monotonic() - begun:.0f} s\n", flush=True)
        finally:
            tasks.close()


if __name__ == "__main__":
    main()
