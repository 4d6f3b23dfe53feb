"""Sweeps under a real daemon: how cheap a thousand members are, and what successive halving saves.

First a sweep of 1,000 members, each a process of its own that takes half a second: how long its one
request takes, how long lists take while it runs, and how much journal its whole life costs (the bytes
of its facts, as the store holds them).

Then searches for the learning rate, momentum and width of a small network (`support/sweep_train.py`),
ten seeds, each with the same 27 draws twice: plain, all to their 27 epochs, and with `asha` (rungs at
3, 9 and 27 epochs, a third goes on). An epoch takes a fixed time, as on a device of its own.
Device-seconds are those between the start and the stop of each member's runs, starting up included.
The configuration found is as good as the best one if its loss differs by less than two standard
deviations of that configuration's own, over other initial weights. Prints a line per seed, then the
targets.
"""

import argparse
import json
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, quantiles, stdev
from typing import Any

from muster.client import Client
from muster.wire.api.sweep_records import MemberRecord
from support.bars import bar, print_table
from support.load_daemon import daemon
from support.sweep_train import fresh, train

SCRIPT = Path(__file__).parent / "support" / "sweep_train.py"
OVER = {"lr": "1e-4..1:log", "momentum": "0.0..0.95", "width": "4..64:log"}
OTHERS = 5
"""Other initial weights, to know how far a configuration's loss is chance."""
PACE = 0.2
"""s of an epoch: two cores do eight at once in less."""
BEGUN, GONE = ("StartBegun",), ("Preempted", "Ended", "Cancelled")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a sweep of many members costs."""

    request: float
    """s until its request is answered."""
    known: float
    """s until all members are listed, from the request on."""
    lists: list[float]
    """s of each list while it ran."""
    journal: int
    """Bytes of facts."""
    seconds: float
    """s until all members were over."""


def many(client: Client, store: Path, members: int) -> Cost:
    """Run a sweep of short members, and ask for lists meanwhile."""
    before = journal_bytes(store)
    begun = time.perf_counter()
    sweep = client.sweep(
        {"name": "many", "command": ["sleep", "0.5"], "devices": "1"},
        over={"x": f"1..{members}"},
    )
    request = time.perf_counter() - begun
    assert len(sweep.members()) == members
    known = time.perf_counter() - begun
    with listing(client) as lists:
        sweep.wait()
    seconds = time.perf_counter() - begun
    counts = sweep.record().counts
    if counts != {"succeeded": members}:
        raise RuntimeError(f"not all members have succeeded: {counts}")
    return Cost(request, known, lists, journal_bytes(store) - before, seconds)


@contextmanager
def listing(client: Client) -> Iterator[list[float]]:
    """Ask for a page of jobs and of sweeps, again and again; the s of each."""
    found: list[float] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            for look in (lambda: client.active_jobs(page=100), lambda: client.sweeps(page=20)):
                begun = time.perf_counter()
                look()
                found.append(time.perf_counter() - begun)
            over.wait(0.05)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def journal_bytes(store: Path) -> int:
    """Bytes of all facts in a store."""
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
        (total,) = database.execute("SELECT COALESCE(SUM(LENGTH(body)), 0) FROM journal").fetchone()
    database.close()
    return int(total)


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search has found, and at which cost."""

    best: MemberRecord
    device_seconds: float
    epochs: int

    @property
    def loss(self) -> float:
        return self.best.metrics["loss"]


def search(client: Client, seed: int, members: int, epochs: int, *, asha: bool) -> Searched:
    """Run one search to its end."""
    words = [f"--{name}={{{name}}}" for name in OVER]
    words += [f"--epochs={epochs}", f"--seed={seed}", f"--pace={PACE}"]
    how: dict[str, Any] = {"asha": {"metric": "loss", "rung": 3, "eta": 3}} if asha else {}
    sweep = client.sweep(
        {
            "name": f"{'asha' if asha else 'plain'}-{seed}",
            "command": [sys.executable, str(SCRIPT), *words],
            "env": {"OPENBLAS_NUM_THREADS": "1"},
        },
        over=OVER,
        samples=members,
        seed=seed,
        **how,
    )
    sweep.wait()
    best = sweep.best()
    assert best is not None
    found = [each for each in sweep.members() if each.number is not None]
    if any(each.status == "failed" for each in found):
        raise RuntimeError(next(each.reason for each in found if each.status == "failed"))
    held = sum(device_seconds(client, each.number) for each in found if each.number)
    return Searched(best, held, sum(each.epoch or 0 for each in found))


def device_seconds(client: Client, number: int) -> float:
    """s that a job held its device."""
    total, begun = 0.0, None
    for change in client.events(number):
        if change.kind in BEGUN:
            begun = change.at
        elif change.kind in GONE and begun is not None:
            total, begun = total + change.at - begun, None
    return total


def chance(member: MemberRecord, epochs: int) -> float:
    """The standard deviation of a configuration's loss over initial weights."""
    params = member.params
    losses = []
    for seed in range(1000, 1000 + OTHERS):
        steps = train(
            fresh(int(params["width"]), seed), float(params["lr"]), float(params["momentum"]), seed
        )
        losses.append([next(steps) for _ in range(epochs)][-1])
    return stdev(losses)


@dataclass(frozen=True, slots=True)
class Compared:
    """Both searches of one seed."""

    seed: int
    plain: Searched
    asha: Searched
    chance: float

    @property
    def share(self) -> float:
        return self.asha.device_seconds / self.plain.device_seconds

    @property
    def deviations(self) -> float:
        """How much worse the configuration found is, in standard deviations of the best one's loss."""
        return max(0.0, self.asha.loss - self.plain.loss) / self.chance

    def row(self) -> list[str]:
        same = self.asha.best.index == self.plain.best.index
        return [
            str(self.seed),
            f"{self.plain.loss:.5f}",
            f"{self.asha.loss:.5f}",
            "same" if same else f"{self.deviations:.2f} sd",
            str(self.plain.epochs),
            str(self.asha.epochs),
            f"{self.plain.device_seconds:.1f}",
            f"{self.asha.device_seconds:.1f}",
            f"{self.share:.2f}",
        ]


def compare(client: Client, seeds: Sequence[int], members: int, epochs: int) -> list[Compared]:
    """Run both searches of each seed, and print them."""
    done: list[Compared] = []

    def rows() -> Iterator[list[str]]:
        for seed in seeds:
            plain = search(client, seed, members, epochs, asha=False)
            asha = search(client, seed, members, epochs, asha=True)
            done.append(Compared(seed, plain, asha, chance(plain.best, epochs)))
            yield done[-1].row()

    print_table("seed plain asha found epochs epochs dev-s dev-s share", rows())
    return done


def opened(home: Path) -> tuple[Client, Path]:
    """A client of the daemon of a folder, and its store."""
    settings = json.loads((home / "client.json").read_bytes())
    return Client(settings["url"], settings["token"]), home / "data" / "muster.db"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100 members; one seed, nine draws")
    parser.add_argument("--seeds", type=int, default=10, help="searches of each kind (default: 10)")
    given = parser.parse_args()
    members, draws, epochs = (100, 9, 27) if given.quick else (1000, 27, 27)
    seeds = range(1 if given.quick else given.seeds)
    with tempfile.TemporaryDirectory(prefix="muster-sweep-") as folder:
        home = Path(folder)
        with daemon(home):
            client, store = opened(home)
            with client:
                cost = many(client, store, members)
                p99 = quantiles(cost.lists, n=100)[98]
                print(
                    f"{members:,} members: request {cost.request:.3f} s, all listed after "
                    f"{cost.known:.3f} s; {len(cost.lists)} lists, p99 {1000 * p99:.0f} ms; journal "
                    f"{cost.journal / 1e6:.2f} MB; over after {cost.seconds:.1f} s\n",
                    flush=True,
                )
                done = compare(client, seeds, draws, epochs)
    print(f"share of device-seconds: mean {fmean(each.share for each in done):.3f}")
    bar("sweep-request-s", cost.request, 2.0)
    bar("sweep-list-p99-ms", 1000 * p99, 100.0)
    bar("sweep-journal-mb", cost.journal / 1e6, 5.0)
    bar("sweep-asha-device-seconds", fmean(each.share for each in done), 0.4)
    bar("sweep-asha-worst-deviations", max(each.deviations for each in done), 2.0)


if __name__ == "__main__":
    main()
