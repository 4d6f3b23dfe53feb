"""Policies on the measured T4 cluster: 16 nodes of 4, four published workloads of 160 jobs.

faithful   Tiresias, Optimus + oracle and AFS-L under the published rules, against the published means
better     Muster's own: batch fixed or free, pauses of 30 s or 1 s, decided every 60 s or at every
           event, by an oracle or by what jobs have shown; each with its ratio to the lower bound
held out   the same on workloads resampled from the four (other jobs, other times), against AFS-L

The data is the Pollux artifact's (OSDI'21); its rules are in the README beside it.
"""

import argparse
import csv
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from multiprocessing import Pool
from pathlib import Path
from random import Random

# Its threads gain nothing on matrices as small as ours, and lose much on a busy machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from muster.policy.base import Policy
from muster.policy.published.afs import Afs
from muster.policy.registry import POLICIES
from muster.sim.report.bounds import bounds
from support.bars import bar, print_table
from support.partly_told import PARTS
from support.t4_cluster import DATA, WORKLOADS, Case, mean, run

PUBLISHED = {
    "tiresias": (2473.7, 5145.0, 3876.3, 3280.3),
    "optimus": (4087.1, 6913.9, 3944.0, 5967.8),
    "afs": (2407.0, 3906.0, 2995.0, 3240.0),
    "pollux": (2088.8, 3322.9, 2188.5, 2721.0),
}
"""Mean completion times, s, of workloads 1 to 4: the first two and Pollux' from its artifact, AFS-L's
measured apart under the same rules (see the data's README)."""
HELD_OUT = tuple(range(6))
SEEDS = (11, 12)
"""Of the errors with which jobs measure themselves: others than those looked at while it was built."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: a policy under some conditions, and its mean and bound on each workload."""

    label: tuple[str, ...]
    means: tuple[float, ...]
    bounds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the workloads."""
        return sum(self.means) / len(self.means)

    def cells(self) -> list[str]:
        """As printed: each workload, their mean, and its ratio to the lower bound."""
        ratio = sum(m / b for m, b in zip(self.means, self.bounds, strict=True)) / len(self.means)
        return [*self.label, *(f"{m:,.0f}" for m in self.means), f"{self.mean:,.0f}", f"{ratio:.2f}"]


FAITHFUL: tuple[tuple[str, Policy, Case], ...] = (
    ("tiresias", POLICIES["tiresias"], Case(elastic=False)),
    ("optimus", POLICIES["optimus"], Case()),
    ("afs", Afs(cap=48), Case(most=48)),
)
OWN = Case(strategy="pack")


def one(policy: Policy, case: Case, seeds: Sequence[int], workload: int | Path) -> tuple[float, float]:
    """Mean completion time and its lower bound, s; learnt ones over several seeds."""
    used = seeds[:1] if case.oracle else seeds
    results = [run(policy, workload, replace(case, seed=seed)) for seed in used]
    found = bounds(results[0])
    assert found is not None
    # With a free batch speeds change along the way, and the third bound does not hold.
    bound = max(found.alone, found.machine) if case.free_batch else found.best
    return sum(mean(result) for result in results) / len(results), bound


def measured(
    label: tuple[str, ...], policy: Policy, case: Case, workloads: Sequence[int | Path]
) -> Row:
    """The policy on each workload, in as many processes as there are processors."""
    seeds = SEEDS if len(workloads) > 1 and case.pause >= 30.0 else SEEDS[:1]
    with Pool(os.cpu_count()) as pool:
        found = pool.map(partial(one, policy, case, seeds), workloads, chunksize=1)
    return Row(label, tuple(m for m, _ in found), tuple(b for _, b in found))


def kept(rows: Iterable[Row], into: dict[tuple[str, ...], Row]) -> Iterator[list[str]]:
    """The cells of each row as it is measured."""
    for row in rows:
        into[row.label] = row
        yield row.cells()


def own_rows(workloads: Sequence[int | Path], *, quick: bool) -> Iterator[Row]:
    """Muster's own policy under all conditions."""
    for free in (False, True):
        for pause in (30.0,) if quick else (30.0, 1.0):
            for rounds in (True,) if quick else (True, False):
                for oracle in (True, False):
                    case = replace(OWN, free_batch=free, pause=pause, rounds=rounds, oracle=oracle)
                    yield measured(_label(case), POLICIES["muster"], case, workloads)


def _label(case: Case) -> tuple[str, ...]:
    return (
        "free" if case.free_batch else "fixed",
        f"{case.pause:.0f}s",
        "rounds" if case.rounds else "events",
        "oracle" if case.oracle else "learnt",
    )


def drawn(seed: int, folder: Path) -> Path:
    """A workload drawn from the four: its jobs from all of theirs, and its times of submission too."""
    rows = []
    for number in WORKLOADS:
        with (DATA / "workloads" / f"workload-{number}.csv").open() as file:
            rows += list(csv.DictReader(file))
    random = Random(seed)
    times = sorted(float(random.choice(rows)["time"]) + random.uniform(-600, 600) for _ in range(160))
    path = folder / f"drawn-{seed}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for i, at in enumerate(times):
            row = random.choice(rows)
            name = f"{row['application']}-{i}"
            writer.writerow({**row, "name": name, "time": str(max(0.0, round(at)))})
    return path


def print_faithful(found: dict[tuple[str, ...], Row]) -> None:
    """Their targets."""
    for name, mean_off, worst_off in (("tiresias", 3.0, 8.0), ("optimus", 3.0, 8.0), ("afs", 5.0, 0.0)):
        row, published = found[(name,)], PUBLISHED[name]
        off = [abs(m / p - 1) * 100 for m, p in zip(row.means, published, strict=False)]
        whole = abs(row.mean / (sum(published[: len(off)]) / len(off)) - 1) * 100
        bar(f"faithful-{name}-mean-off-percent", whole, mean_off)
        if worst_off:
            bar(f"faithful-{name}-worst-off-percent", max(off), worst_off)


def print_better(found: dict[tuple[str, ...], Row], workloads: Sequence[int]) -> None:
    """Muster's own against AFS with an oracle, Pollux, and itself with an oracle."""
    pollux = [PUBLISHED["pollux"][n - 1] for n in workloads]
    afs = [PUBLISHED["afs"][n - 1] for n in workloads]
    fixed, free = (found[b, "30s", "rounds", "learnt"] for b in ("fixed", "free"))
    bar("muster-fixed-learnt-over-afs-oracle", fixed.mean / (sum(afs) / len(afs)), 1.0)
    bar("muster-fixed-learnt-over-pollux", fixed.mean / (sum(pollux) / len(pollux)), 1.0)
    for number, ours, theirs in zip(workloads, free.means, pollux, strict=True):
        bar(f"muster-free-learnt-over-pollux-{number}", ours / theirs, 1.0)
    for batch, decides in product(("fixed", "free"), ("rounds", "events")):
        if row := found.get((batch, "30s", decides, "learnt")):
            oracle = found[batch, "30s", decides, "oracle"]
            bar(f"muster-{batch}-{decides}-learnt-over-oracle", row.mean / oracle.mean, 1.03)


def print_held_out(quick: bool) -> None:
    """Workloads that nobody has looked at."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [drawn(seed, Path(folder)) for seed in HELD_OUT[: 1 if quick else None]]
        rows: dict[tuple[str, ...], Row] = {}
        heading = " ".join(f"D{n}" for n in range(len(paths)))
        learnt = replace(OWN, oracle=False)
        table = (
            measured(("afs", "oracle"), Afs(cap=48), Case(most=48), paths),
            measured(("muster", "oracle"), POLICIES["muster"], OWN, paths),
            measured(("muster", "learnt"), POLICIES["muster"], learnt, paths),
        )
        print_table(f"POLICY KNOWS {heading} MEAN /BOUND", kept(table, rows))
    bar(
        "held-out-learnt-over-afs-oracle",
        rows["muster", "learnt"].mean / rows["afs", "oracle"].mean,
        1.0,
    )
    bar(
        "held-out-learnt-over-oracle",
        rows["muster", "learnt"].mean / rows["muster", "oracle"].mean,
        1.03,
    )


def print_parts(workloads: Sequence[int]) -> None:
    """Where learning costs most: one part of what is learnt replaced by the oracle's at a time."""

    def rows() -> Iterator[list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            paths: list[int | Path] = [*workloads, *(drawn(seed, Path(folder)) for seed in HELD_OUT)]
            best = measured(("all",), POLICIES["muster"], OWN, paths)
            for told in ("", *PARTS):
                case = replace(OWN, oracle=False, told=told)
                row = measured((told or "nothing",), POLICIES["muster"], case, paths)
                over = [mine / its for mine, its in zip(row.means, best.means, strict=True)]
                yield [told or "nothing", *(f"{each:.3f}" for each in (*over, sum(over) / len(over)))]

    heading = " ".join([*(f"W{n}" for n in workloads), *(f"D{n}" for n in HELD_OUT)])
    print_table(f"TOLD {heading} MEAN", rows())


def main() -> None:
    """Measure, print the tables, then the targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one workload, one seed, 30 s; under 30 s")
    parser.add_argument("--parts", action="store_true", help="only: which part of learning costs what")
    asked = parser.parse_args()
    quick = asked.quick
    if asked.parts:
        print_parts(WORKLOADS)
        return
    workloads = WORKLOADS[:1] if quick else WORKLOADS
    heading = " ".join(f"W{n}" for n in workloads)
    found: dict[tuple[str, ...], Row] = {}
    faithful = (measured((name,), policy, case, workloads) for name, policy, case in FAITHFUL)
    print_table(f"POLICY {heading} MEAN /BOUND", kept(faithful, found))
    print_table("PUBLISHED W1 W2 W3 W4 MEAN", _published())
    print_table(
        f"BATCH PAUSE DECIDES KNOWS {heading} MEAN /BOUND",
        kept(own_rows(workloads, quick=quick), found),
    )
    if not quick:
        print_held_out(quick)
    print_faithful(found)
    print_better(found, workloads)


def _published() -> Iterator[list[str]]:
    for name, means in PUBLISHED.items():
        yield [name, *(f"{m:,.0f}" for m in means), f"{sum(means) / len(means):,.0f}"]


if __name__ == "__main__":
    main()
