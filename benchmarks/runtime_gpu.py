"""The runtime on one NVIDIA GPU, against plain torch on the same GPU in the same run.

training  the same training through Muster (one worker; two on the same GPU) and in plain torch: final
          parameters, and the throughput of one worker over the plain loop's
mixed     a GPU worker and a CPU worker together: balanced shares against equal ones, against the GPU
          alone, and against the ideal of the two speeds measured alone
resize    stall of a resize from one worker to two and back, against save, exit, start and load
nccl      NCCL's communicator with one rank sums a bucket

Needs torch and the standard library alone: PYTHONPATH=src python benchmarks/runtime_gpu.py. With
--device cpu the same runs on a machine without a GPU, small, with a worker that sleeps for a slower
device: that shows whether the parts work, and measures nothing. Prints tables and a line per target.
"""

import argparse
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from muster.runtime.launch.launcher import Launch
from support.bars import bar, print_table
from support.gpu_runs import PATIENCE, Runs, Size, cores, difference, rate, stall, typical
from support.gpu_train import Record

DIFFERENCE, THROUGHPUT, OVER_IDEAL, TIMES_FASTER = 1e-3, 0.98, 1.08, 100.0
"""Targets: parameters' relative difference, throughput over the plain loop's, step over the ideal one,
and restart over stall."""
ALIKE_STEPS = 40
"""Steps until parameters are compared: more would show how training spreads differences of one bit."""
FEEDERS = 2
"""Threads left to the worker that only feeds the GPU."""
SLOWER = 0.004
"""Seconds per sample that a pretended slower device needs more (--device cpu)."""

EQUAL_STEPS = 10
"""With equal shares: each lasts as long as the CPU needs for half of the batch."""
ENDLESS = 1_000_000
"""Steps of a training that is stopped when all is measured."""

Figures = dict[str, Any]


class Bench:
    """What all parts need: where to run, how large, and how long."""

    def __init__(self, device: str, quick: bool) -> None:
        self.gpu = device != "cpu"
        self.device, self.quick = device, quick
        self.runs = Runs(device)
        self.rounds = 1 if quick else 3
        self.alike = Size("small", 32, 32, 64, 512) if self.gpu else Size("small", 8, 16, 16, 64)
        # A step of some ten milliseconds: shorter ones would measure the launching of kernels.
        self.fast = Size("small", 64, 64, 512, 2048) if self.gpu else self.alike
        # ResNet-18's layers at a quarter of its width: a sixteenth of its gradients, so that a step
        # computes most of its time.
        self.mixed = Size("resnet18", 16, 64, 4096, 8192) if self.gpu else Size("small", 8, 16, 64, 256)
        self.resized = Size("resnet18", 64, 64, 256, 1024) if self.gpu else self.alike

    def length(self, steps: int) -> int:
        """Fewer steps in a quick run."""
        return max(16, steps // 4) if self.quick else steps


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--device", default="cuda:0", help="cuda:0 (the default) or cpu")
    parser.add_argument("--quick", action="store_true", help="fewer steps, one round: two minutes")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write all figures to a file")
    options = parser.parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        parser.exit(2, "no GPU here: --device cpu shows whether the parts work\n")
    bench = Bench(options.device, options.quick)
    figures: Figures = {"machine": machine(options.device), "quick": options.quick}
    figures["machine"]["threads_at_fork"] = bench.runs.threads_at_fork
    print(", ".join(f"{name} {value}" for name, value in figures["machine"].items()), "\n", flush=True)
    try:
        failed = [
            name for name in PARTS if options.only in (None, name) and not tried(name, bench, figures)
        ]
    finally:
        bench.runs.close()
        if options.out:
            options.out.write_text(json.dumps(figures, indent=1) + "\n")
    sys.exit(1 if failed else 0)


def machine(device: str) -> Figures:
    """Where this was measured."""
    name = "cpu" if device == "cpu" else torch.cuda.get_device_name(device)
    return {"device": name, "cores": cores(), "torch": torch.__version__, "cuda": torch.version.cuda}


def tried(name: str, bench: Bench, figures: Figures) -> bool:
    """Run a part; one that fails says so and lets the others run."""
    print(f"{name}", flush=True)
    begun = time.monotonic()
    try:
        figures[name] = PARTS[name](bench)
    except Exception as problem:
        figures[name] = {"error": f"{type(problem).__name__}: {problem}"}
        traceback.print_exc(file=sys.stdout)
    figures[name]["seconds"] = time.monotonic() - begun
    print(f"{name} took {time.monotonic() - begun:.0f} s\n", flush=True)
    return "error" not in figures[name]


def training(bench: Bench) -> Figures:
    """The same training with and without Muster: parameters, then throughput."""
    return {"alike": _alike(bench), "throughput": _throughput(bench)}


def _alike(bench: Bench) -> Figures:
    """Parameters after some steps in fp32, against the plain loop's."""
    runs, size = bench.runs, bench.alike
    files = {name: runs.file(name) for name in ("plain", "again", "one", "two")}
    for name in ("plain", "again"):
        runs.plain(size, ALIKE_STEPS, "--exact", "--save", files[name])
    for name, count in (("one", 1), ("two", 2)):
        runs.muster(size, ALIKE_STEPS, [bench.device] * count, "--exact", "--save", files[name])
    found = {name: difference(path, files["plain"]) for name, path in files.items() if name != "plain"}
    words = {"again": "plain-again", "one": "one-worker", "two": "two-workers"}
    print_table("run difference", ((words[name], f"{value:.2g}") for name, value in found.items()))
    bar("gpu-one-worker-difference", found["one"], DIFFERENCE)
    bar("gpu-two-workers-difference", found["two"], DIFFERENCE)
    print()
    return found


def _throughput(bench: Bench) -> Figures:
    """Samples/s in turns; the plain loop also with the loss read in each step, as many write it."""
    rounds, steps = [], bench.length(160)
    for _ in range(bench.rounds):
        plain = rate(bench.runs.plain(bench.fast, steps))
        reading = rate(bench.runs.plain(bench.fast, steps, "--items"))
        (record,) = bench.runs.muster(bench.fast, steps, [bench.device]).values()
        rounds.append({"plain": plain, "reading": reading, "muster": rate(record)})
    ratios = [each["muster"] / each["plain"] for each in rounds]
    rows = [
        (f"{each['plain']:.0f}", f"{each['reading']:.0f}", f"{each['muster']:.0f}", f"{ratio:.3f}")
        for each, ratio in zip(rounds, ratios, strict=True)
    ]
    print_table("plain/s with-item/s muster/s ratio", rows)
    bar("gpu-throughput-over-plain", statistics.median(ratios), THROUGHPUT, above=True)
    print()
    return {"rounds": rounds, "ratio": statistics.median(ratios)}


def mixed(bench: Bench) -> Figures:
    """A GPU and a CPU together, at one global batch."""
    pair = Pair(bench)
    equal = pair.together(EQUAL_STEPS, balance=False)
    balanced = pair.together(bench.length(80))
    shares = [record.rows[-1] for record in balanced.values()]
    whole, few = bench.mixed.batch, max(2, shares[1])
    lines = [pair.line(0, (whole // 2, whole)), pair.line(1, (few, 2 * few))]
    found = {
        "equal": typical(equal["worker-0"]),
        "balanced": typical(balanced["worker-0"]),
        "alone": at(lines[0], whole),
        "ideal": min(max(at(lines[0], whole - k), at(lines[1], k)) for k in range(1, whole)),
    }
    rows = [(name, f"{s * 1e3:.1f}", f"{whole / s:.0f}") for name, s in found.items()]
    print_table("shares ms/step samples/s", rows)
    print(f"balanced shares {shares}; seconds a + c b: GPU {lines[0]}, CPU {lines[1]}")
    bar("gpu-cpu-equal-over-balanced", found["equal"] / found["balanced"], 1.0, above=True)
    bar("gpu-cpu-balanced-over-ideal", found["balanced"] / found["ideal"], OVER_IDEAL)
    print()
    return {**found, "shares": shares, "lines": lines}


class Pair:
    """Two unequal devices; without a GPU the second worker sleeps for each of its samples."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._devices = bench, (bench.device, "cpu")
        self._threads = max(1, cores() - FEEDERS)

    def together(self, steps: int, balance: bool = True) -> dict[str, Record]:
        """Both, with the whole batch."""
        return self._run(self._bench.mixed.batch, steps, self._devices, "worker-1", balance)

    def line(self, place: int, batches: tuple[int, int]) -> tuple[float, float]:
        """Seconds t = a + c b of one of them alone, through the steps of two batches."""
        steps = self._bench.length(40)
        slow = "worker-0" if place else ""
        few, many = batches
        low, high = (
            typical(self._run(batch, steps, self._devices[place : place + 1], slow)["worker-0"])
            for batch in batches
        )
        slope = max(0.0, (high - low) / (many - few))
        return low - slope * few, slope

    def _run(
        self, batch: int, steps: int, devices: Sequence[str], slow: str, balance: bool = True
    ) -> dict[str, Record]:
        pretence = "" if self._bench.gpu or not slow else f"{slow}={SLOWER}"
        size = replace(self._bench.mixed, batch=batch)
        words = ("--feeders", str(FEEDERS), "--slow", pretence)
        threads = self._threads
        return self._bench.runs.muster(size, steps, devices, *words, threads=threads, balance=balance)


def at(line: tuple[float, float], batch: int) -> float:
    """Return the seconds of this many samples."""
    return line[0] + line[1] * batch


def resize(bench: Bench) -> Figures:
    """One worker, two, one again; and the same by a restart."""
    marks: list[float] = []
    quiet = bench.length(80)

    def drive(job: Launch) -> None:
        job.wait_step(quiet, PATIENCE)
        for workers in (2, 1):
            marks.append(time.monotonic())
            job.resize(workers)
            job.wait_members(workers, PATIENCE)
            job.wait_step(job.look(lambda seen: seen.step) + quiet, PATIENCE)
        marks.append(time.monotonic())
        job.stop("measured")

    records = bench.runs.muster(bench.resized, ENDLESS, [bench.device], drive=drive)
    survivor = records["worker-0"]
    begun = survivor.begun[min(quiet // 2, len(survivor.begun) - 1)]
    up, down = (stall(survivor, since, until) for since, until in pairwise(marks))
    found = {"nothing": stall(survivor, begun, marks[0]), "1 to 2": up, "2 to 1": down}
    restart = _restart(bench)
    rows = [
        (name.replace(" ", "-"), f"{s.change * 1e3:.1f}", f"{s.slowest * 1e3:.1f}")
        for name, s in found.items()
    ]
    print_table("change stall-ms slowest-ms", [*rows, ("restart", f"{restart * 1e3:.0f}", "-")])
    for name in ("1 to 2", "2 to 1"):
        # A stall below the clock's noise counts as a tenth of a millisecond.
        ratio = restart / max(found[name].change, 1e-4)
        bar(f"gpu-restart-over-stall-{name.replace(' ', '-')}", ratio, TIMES_FASTER, above=True)
    print()
    stalls = {name: asdict(each) for name, each in found.items()}
    return {"stalls": stalls, "restart": restart, "reported": _changes(survivor)}


def _restart(bench: Bench) -> float:
    """Seconds from the beginning of a save to the end of the next process' first step, less a step."""
    path = bench.runs.file("kept")
    before = bench.runs.plain(bench.resized, 20, "--keep", path)
    after = bench.runs.plain(bench.resized, 20, "--load", path)
    return after.first - before.saving - typical(before)


def _changes(record: Record) -> list[tuple[int, int, int]]:
    """(step, formation, workers) where either changed."""
    states = list(zip(record.formations, record.workers, strict=True))
    return [(step, *now) for step, (before, now) in enumerate(pairwise(states), 1) if now != before]


def nccl(bench: Bench) -> Figures:
    """A group of one rank: its sum is what was put."""
    from muster.runtime.comm import nccl as one
    from muster.runtime.comm.group import GlooGroup
    from muster.runtime.comm.store import StoreClient, Stores
    from muster.runtime.members.peers import PeerServer

    server = PeerServer("127.0.0.1", "")
    Stores(server)
    server.start()
    group = GlooGroup(StoreClient(server.address, "", "1-nccl", 30.0), 0, 1, "127.0.0.1")
    if not bench.gpu:
        group.close()
        print("no GPU: NCCL is not tried\n")
        return {"tried": False}
    flats = [torch.arange(1 << 20, dtype=torch.float32, device=bench.device), torch.ones(8)]
    expected = [flat.clone() for flat in flats]
    communicator = one.Nccl(group, flats)
    seconds = []
    for _ in range(10):
        begun = time.monotonic()
        communicator.begin()
        for bucket in range(len(flats)):
            communicator.put(bucket)
        communicator.finish()
        torch.cuda.synchronize()
        seconds.append(time.monotonic() - begun)
    same = all(torch.equal(a, b) for a, b in zip(flats, expected, strict=True))
    communicator.close()
    rows = [(str(flats[0].nbytes), f"{seconds[0] * 1e3:.1f}", f"{min(seconds) * 1e3:.2f}", str(same))]
    print_table("bytes first-ms then-ms same", rows)
    bar("gpu-nccl-sum-wrong", float(not same), 0.0)
    print()
    return {"tried": True, "first": seconds[0], "then": min(seconds), "same": same}


PARTS: dict[str, Callable[[Bench], Figures]] = {
    "training": training,
    "mixed": mixed,
    "resize": resize,
    "nccl": nccl,
}

if __name__ == "__main__":
    main()
