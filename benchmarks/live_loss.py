"""Trainings that end by their loss, under a real daemon: is their end known at half-time?

Three trainings of examples/elastic (a convolutional network, a small GPT, a wide embedding), each with
an end by its loss in its job (`until`) and ten seeds, on virtual devices of a fixed speed. While they
train, the daemon predicts their epochs from the losses that they report; what it said last before half
of them were done is held against what they took.

The same trainings with their users' own epochs (those of the nearest recipes of examples/training,
which were written to see curves level off) tell what ending by the loss saves: device-seconds are
seconds from a job's first step to its end, times its devices, and the loss that was reached stands
beside them. Prints a line per training, then the targets.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from muster.client import Client
from muster.client.connecting.settings import read_settings
from muster.wire.api.records import OVER, JobRecord
from support.bars import bar, print_table
from support.load_daemon import daemon

SCRIPT = Path(__file__).parent / "support" / "loss_train.py"
WITHIN = 0.25
AT_ONCE = 6
"""Jobs at a time: most of their time is emulated, the rest must fit on two cores."""
SEEDS = 10
LOOK = 0.2
"""s between two looks at the jobs."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A training: its model, what ends it, its users' own epochs, and s of a sample."""

    model: str
    until: str
    epochs: int
    pace: float


WORKLOADS = (
    Workload("cnn", "converged 0.3%", 80, 0.002),
    Workload("gpt", "loss < 2.1 or converged 0.2%", 80, 0.003),
    Workload("wide", "converged 0.2% for 5 epochs", 100, 0.0003),
)


@dataclass(slots=True)
class Followed:
    """A job, and the predictions seen of it."""

    work: Workload
    by_loss: bool
    number: int
    told: list[tuple[int, tuple[float, ...]]] = field(default_factory=list)
    """Epoch, and the predicted epochs of the whole: mean, low, high."""
    first: float | None = None
    """When it was first seen to train."""
    last: JobRecord | None = None

    def look(self, record: JobRecord, now: float) -> None:
        """Take in how the job is."""
        self.last = record
        if record.epoch is not None and self.first is None and record.step:
            self.first = now
        if record.epoch is not None and record.epochs is not None:
            self.told.append((record.epoch, record.epochs))

    @property
    def epochs(self) -> int:
        """What it took."""
        assert self.last is not None and self.last.epoch is not None
        return self.last.epoch + 1

    def at(self, share: float) -> tuple[float, ...] | None:
        """The last prediction before this share of its epochs was done."""
        known = [total for epoch, total in self.told if epoch <= share * self.epochs]
        return known[-1] if known else None

    @property
    def error(self) -> float:
        """Of the total predicted at half-time; nothing predicted is as wrong as can be."""
        told = self.at(0.5)
        return 1.0 if told is None else abs(told[0] - self.epochs) / self.epochs

    @property
    def is_covered(self) -> bool:
        """Whether the interval at half-time holds what it took."""
        told = self.at(0.5)
        return told is not None and told[1] <= self.epochs <= told[2]

    @property
    def device_seconds(self) -> float:
        """From its first step to its end, on one device."""
        assert self.last is not None and self.last.ended is not None and self.first is not None
        return self.last.ended - self.first


def submit(client: Client, work: Workload, seed: int, *, by_loss: bool) -> Followed:
    """Submit a training with its end."""
    words = [sys.executable, str(SCRIPT), work.model, "--seed", str(seed)]
    record: dict[str, object] = {
        "name": f"{work.model}-{seed}{'' if by_loss else '-own'}",
        "command": [*words, "--epochs", str(3 * work.epochs if by_loss else work.epochs)],
        "devices": "1",
        "env": {"MUSTER_SAMPLE_SECONDS": f"{work.pace:g}", "OMP_NUM_THREADS": "1"},
    }
    if by_loss:
        record["until"] = work.until
    return Followed(work, by_loss, client.submit(record).number)


def follow(client: Client, asked: Sequence[tuple[Workload, int, bool]]) -> list[Followed]:
    """Run all jobs, some at a time, and look at their predictions."""
    waiting, live, done = list(asked), list[Followed](), list[Followed]()
    while waiting or live:
        while waiting and len(live) < AT_ONCE:
            work, seed, by_loss = waiting.pop(0)
            live.append(submit(client, work, seed, by_loss=by_loss))
        time.sleep(LOOK)
        for job in list(live):
            job.look(client.job(job.number).job, time.time())
            assert job.last is not None
            if job.last.status in OVER:
                live.remove(job)
                done.append(job)
                if job.last.status != "succeeded":
                    raise RuntimeError(f"job {job.number}: {job.last.error}")
    return done


def rows(done: Sequence[Followed]) -> list[list[str]]:
    """A line per training."""
    found = []
    for model, jobs in grouped(done).items():
        ended, own = ([j for j in jobs if j.by_loss is by] for by in (True, False))
        cells = [model, str(len(ended)), f"{median(j.epochs for j in ended):g}"]
        cells += [f"{median(j.error for j in ended):.3f}", f"{fmean(j.is_covered for j in ended):.2f}"]
        cells += [_mean([j.device_seconds for j in each]) for each in (ended, own)]
        cells += [_mean([_loss(j) for j in each]) for each in (ended, own)]
        found.append(cells)
    return found


def _mean(values: Sequence[float]) -> str:
    return f"{fmean(values):.3g}" if values else "-"


def _loss(job: Followed) -> float:
    assert job.last is not None
    return job.last.loss or 0.0


HEADING = "model seeds epochs error covered seconds own-s loss own-loss"


def grouped(done: Sequence[Followed]) -> dict[str, list[Followed]]:
    """The jobs by model."""
    found: defaultdict[str, list[Followed]] = defaultdict(list)
    for job in done:
        found[job.work.model].append(job)
    return dict(sorted(found.items()))


def print_bars(done: Sequence[Followed]) -> None:
    """One line per target."""
    for model, jobs in grouped(done).items():
        ended, own = ([j for j in jobs if j.by_loss is by] for by in (True, False))
        bar(f"loss-error-at-half-{model}", median(j.error for j in ended), WITHIN)
        if own:
            saved = fmean(j.device_seconds for j in ended) / fmean(j.device_seconds for j in own)
            bar(f"loss-device-seconds-{model}", saved, 1.0)


def main() -> None:
    """Train, look, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one training with one seed")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of each training")
    parser.add_argument("--own", type=int, default=2, help="seeds with the users' own epochs")
    chosen = parser.parse_args()
    works = WORKLOADS[:1] if chosen.quick else WORKLOADS
    seeds, own = (1, 0) if chosen.quick else (chosen.seeds, chosen.own)
    asked = [(work, seed, True) for seed in range(seeds) for work in works]
    asked += [(work, seed, False) for seed in range(own) for work in works]
    with tempfile.TemporaryDirectory() as folder, daemon(Path(folder)):
        settings = read_settings({"MUSTER_HOME": folder})
        done = follow(Client(settings.url, settings.token), asked)
    print_table(HEADING, rows(done))
    print_bars(done)


if __name__ == "__main__":
    main()
