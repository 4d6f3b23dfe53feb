"""Workers that sum by NCCL on one GPU: resized, killed (-9), and stopped for good.

NCCL takes processes with host names of their own (NCCL_HOSTID) for hosts of their own, so three of them
can share a GPU and talk over sockets. Whatever works there is what machines with a GPU each would do.

resize  1 to 3 to 2 workers: the stall of the worker that stays, and the final parameters
kill    one of three workers is killed at any point of a step, and replaced before the next: what the
        survivors lose (the gap between two steps, less a typical one), and the final parameters
stop    one of three is stopped (SIGSTOP), also the most senior: its sockets stay open, so only the
        deadline (3 s here) tells

Parameters are float64 and compared with a plain loop's on the same GPU: a step that was lost, done
twice or summed wrongly would show. Needs torch and the standard library alone:
PYTHONPATH=src python benchmarks/runtime_nccl.py. Prints tables and a line per target.
"""

import argparse
import math
import random
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import torch

from muster.runtime.launch.launcher import Launch
from support.bars import bar, print_table
from support.gpu_runs import PATIENCE, Runs, Size, difference, stall

SIZE = Size("small", 8, 16, 48, 480)
WORKERS = 3
SLOW = 0.002
"""Seconds per sample, so that a blow falls into any part of a step."""
STOPS = 4
STEADY = 10
"""Steps between the return of one worker and the end of the next."""
STEPS = 40
"""Of the run that is resized, before and after each change."""
DIFFERENCE, LOST, DEADLINE, WAITS, PAUSE = 1e-6, 3.0, 3.0, 2.0, 0.1
"""Targets: relative difference of parameters; s lost by a kill; the deadline and how many of them until
a stopped worker is left out; s of a resize's stall."""
WORDS = ("--double", "--hosts", "--slow", f"all={SLOW}")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the resize and one kill")
    parser.add_argument("--only", choices=("resize", "kill", "stop"), help="one part alone")
    parser.add_argument("--device", default="cuda:0", help="cuda:0 (the default); cpu sums by gloo")
    options = parser.parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        parser.exit(2, "no GPU here: --device cpu shows whether the parts work\n")
    runs = Runs(options.device)
    kills = 1 if options.quick else 10
    parts: dict[str, Callable[[], None]] = {
        "resize": lambda: resize(runs),
        "kill": lambda: kill(runs, kills),
        "stop": lambda: stop(runs, STOPS),
    }
    try:
        for name, part in parts.items():
            if options.only == name or (not options.only and not (options.quick and name == "stop")):
                begun = time.monotonic()
                part()
                print(f"{name} took {time.monotonic() - begun:.0f} s\n", flush=True)
    finally:
        runs.close()


def resize(runs: Runs) -> None:
    """One worker, three, two."""
    marks: list[float] = []
    path = runs.file("resized")

    def drive(job: Launch) -> None:
        job.wait_step(STEPS, PATIENCE)
        for workers in (3, 2):
            marks.append(time.monotonic())
            job.resize(workers)
            job.wait_members(workers, PATIENCE)
            job.wait_step(job.look(lambda seen: seen.step) + STEPS, PATIENCE)
        marks.append(time.monotonic())

    total = 20 * STEPS
    words = (*WORDS, "--save", path)
    records = runs.muster(SIZE, total, [runs.device], *words, drive=drive)
    stalls = [stall(records["worker-0"], *span).change for span in pairwise(marks)]
    rows = zip(("1-to-3", "3-to-2"), (f"{seconds * 1e3:.1f}" for seconds in stalls), strict=True)
    print_table("change stall-ms", rows)
    bar("nccl-resize-stall-s", max(stalls), PAUSE)
    bar("nccl-resize-difference", difference(path, _plain(runs, total)), DIFFERENCE)


def kill(runs: Runs, blows: int) -> None:
    """One after the other, at each of three ranks in turn."""
    path, total = runs.file("killed"), 150 + 60 * blows
    lost = _strike(runs, blows, signal.SIGKILL, total, ("--save", path))
    print_table("killed lost-s", [(task, f"{seconds:.2f}") for task, seconds in lost])
    bar("nccl-kill-lost-s", max(seconds for _, seconds in lost), LOST)
    bar("nccl-kill-difference", difference(path, _plain(runs, total)), DIFFERENCE)


def stop(runs: Runs, blows: int) -> None:
    """The same with workers that are stopped."""
    lost = _strike(runs, blows, signal.SIGSTOP, 1_000_000, ())
    rows = [(task, f"{seconds:.2f}", f"{seconds / DEADLINE:.2f}") for task, seconds in lost]
    print_table("stopped lost-s deadlines", rows)
    bar("nccl-stop-deadlines", max(seconds for _, seconds in lost) / DEADLINE, WAITS)


def _strike(
    runs: Runs, blows: int, number: int, total: int, words: Sequence[str]
) -> list[tuple[str, float]]:
    """Strike workers with a signal; return each with the seconds lost by its survivors."""
    struck: list[tuple[float, str]] = []
    chance, times = random.Random(5), runs.file("times")
    stopped = number == signal.SIGSTOP

    def drive(job: Launch) -> None:
        for blow in range(blows):
            job.wait_members(WORKERS, PATIENCE)
            job.wait_step(job.look(lambda seen: seen.step) + STEADY, PATIENCE)
            formation, members = job.look(lambda seen: (seen.formation, seen.members))
            time.sleep(chance.random() * SLOW * SIZE.batch)
            victim = members[blow % WORKERS]
            struck.append((time.monotonic(), victim))
            job.kill(victim, number)
            job.wait_formation(formation + 1, PATIENCE)
            job.wait_step(job.look(lambda seen: seen.step) + 2, PATIENCE)
            job.kill(victim)
        if stopped:
            job.stop("measured")

    runs.muster(
        SIZE, total, [runs.device] * WORKERS, *WORDS, "--times", times, *words,
        replace=True, deadline=DEADLINE if stopped else 30.0, drive=drive,
    )  # fmt: skip
    return _lost(times, struck)


def _lost(times: str, struck: Sequence[tuple[float, str]]) -> list[tuple[str, float]]:
    """The gap over each blow, for the survivor that waited longest, less a typical step; in s."""
    gaps: dict[str, list[tuple[float, float]]] = {}
    for path in Path(times).parent.glob(f"{Path(times).name}.*.times"):
        begun = [float(line) for line in path.read_text(encoding="ascii").splitlines()[:-1]]
        gaps[path.name.split(".")[-2]] = list(pairwise(begun))
    usual = statistics.median(after - before for each in gaps.values() for before, after in each)
    ends = [at for at, _ in struck[1:]] + [math.inf]

    def lost(victim: str, at: float, end: float) -> float:
        # A blow may fall when its worker has done its part of the step: the next one shows it.
        others = (gap for task, each in gaps.items() if task != victim for gap in each)
        return max(after - before - usual for before, after in others if after > at and before < end)

    return [(victim, lost(victim, at, end)) for (at, victim), end in zip(struck, ends, strict=True)]


def _plain(runs: Runs, total: int) -> str:
    """The parameters of a plain loop after as many steps."""
    path = runs.file("plain")
    runs.plain(SIZE, total, "--double", "--save", path)
    return path


if __name__ == "__main__":
    main()
