"""A change that is cheaper never makes things worse: live resizes at events against restarts in rounds.

Small workloads drawn from the measured T4 cluster's (needs ../shared/data): 1 to 40 of its jobs within
some hours, on its 64 devices, speeds and lengths learnt, batch fixed and free. Each is run with resizes
of 1 s decided at every event, and with restarts of 30 s decided every 60 s. Prints the workloads where
the cheaper change gives the longer mean, then the targets.
"""

import csv
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from muster.policy.registry import POLICIES
from support.bars import bar
from support.sim_runs import OWN, parse, print_wide, processes
from support.t4_cluster import DATA, WORKLOADS, Case, run
from support.t4_cluster import mean as completion

WORSE = 1.02
"""Most that the cheaper change's mean may be of the dearer's."""


@dataclass(frozen=True, slots=True)
class CheaperCase:
    """A drawn workload, with batches fixed or free."""

    seed: int
    free_batch: bool


@dataclass(frozen=True, slots=True)
class BothMeans:
    """Mean completion times, s."""

    case: CheaperCase
    jobs: int
    live: float
    restarted: float

    @property
    def ratio(self) -> float:
        """The cheaper change's over the dearer's."""
        return self.live / self.restarted


def played(case: CheaperCase) -> BothMeans:
    """Simulate one workload both ways."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.csv"
        jobs = draw(case.seed, path)
        live, restarted = (
            completion(run(POLICIES[OWN], path, _case(case, pause, rounds=rounds)))
            for pause, rounds in ((1.0, False), (30.0, True))
        )
    return BothMeans(case, jobs, live, restarted)


def _case(case: CheaperCase, pause: float, *, rounds: bool) -> Case:
    return Case(
        free_batch=case.free_batch,
        pause=pause,
        rounds=rounds,
        oracle=False,
        strategy="pack",
        seed=case.seed,
    )


def draw(seed: int, path: Path) -> int:
    """Write a workload of some of the four's jobs; return how many."""
    rows = []
    for number in WORKLOADS:
        with (DATA / "workloads" / f"workload-{number}.csv").open() as file:
            rows += list(csv.DictReader(file))
    random = Random(f"cheaper/{seed}")
    kinds = sorted({row["application"] for row in rows})
    by_kind = {kind: [row for row in rows if row["application"] == kind] for kind in kinds}
    jobs = random.choice((1, 2, 4, 8, 16, 40))
    window = random.choice((0.0, 1.0, 4.0)) * 3600.0
    # Half of them by kind: by their numbers alone there are hardly any large ones.
    chosen = [random.choice(by_kind[random.choice(kinds)] if i % 2 else rows) for i in range(jobs)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for i, at in enumerate(sorted(round(random.uniform(0.0, window)) for _ in chosen)):
            name = f"{chosen[i]['application']}-{i}"
            writer.writerow({**chosen[i], "name": name, "time": str(at)})
    return jobs


def _row(both: BothMeans) -> Sequence[str]:
    kind = "free" if both.case.free_batch else "fixed"
    figures = (f"{both.live:,.0f}", f"{both.restarted:,.0f}", f"{both.ratio:.3f}")
    return (str(both.case.seed), kind, str(both.jobs), *figures)


def main() -> None:
    """Simulate, print what is worse, then the targets."""
    arguments = parse(__doc__, seeds=50, quick=5)
    cases = [CheaperCase(seed, free) for free in (False, True) for seed in range(arguments.seeds)]
    with processes(arguments.j) as spread:
        found = list(spread(played, cases))
    worse = [both for both in found if both.ratio > WORSE]
    if worse:
        print_wide(("SEED", "BATCH", "JOBS", "LIVE-S", "RESTARTS-S", "RATIO"), map(_row, worse))
    for free in (False, True):
        here = [both for both in found if both.case.free_batch == free]
        name = "free" if free else "fixed"
        bar(f"cheaper-over-dearer-{name}", mean(both.ratio for both in here), 1.0)
        bar(f"cheaper-over-dearer-{name}-worst", max(both.ratio for both in here), WORSE)
        bar(f"cheaper-is-worse-{name}", sum(both.ratio > WORSE for both in here), 0)


if __name__ == "__main__":
    main()
