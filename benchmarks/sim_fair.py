"""Fair, and done in time: makespan, mean and finish-time ratio of every policy, by gang size.

120 rigid jobs of 1 to 8 devices on 32 (see support/fair_worlds.py), with lengths learnt and declared.
The ratio is that of Themis: completion time over what a fair share of the cluster would have taken,
its time alone times the crowd. Two crowds are counted: devices asked for over devices there, the mean
over the job's life (`muster sim`'s own; a fair share that all could have at once); and, as Shockwave's
published figures are computed (NSDI'23, get_finish_time_fairness of its code), jobs in the trace over
devices, the same for every job, wide or not. A job above 1.05 is unfair in both, as it is there.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from muster.model.pool import single_pool
from muster.policy.muster import Muster
from muster.policy.registry import POLICIES
from muster.sim.engine import Setting
from muster.sim.learnt import Learnt
from muster.sim.report.metrics import UNFAIR, completion_times, fairness, summary
from muster.sim.scenario.run import simulate
from support.bars import bar
from support.fair_worlds import DEVICES, JOBS, drawn
from support.sim_runs import OWN, parse, print_wide, processes

MEAN = "muster-mean"
"""Muster's own, by the mean alone: nobody is late, and nothing depends on the last job."""
TOLD = (OWN, MEAN, "srtf", "finish-time", "tetris", "afs")
"""Policies that are also run with declared lengths."""
LATEST, SLOWER, WORST, MOST_UNFAIR = 1.08, 1.10, 1.6, 0.04
"""Targets: makespan over the best of all; mean over that by the mean alone; ratio; part above 1.05."""


@dataclass(frozen=True, slots=True)
class FairCase:
    """A policy on a drawn world."""

    policy: str
    declared: bool
    seed: int
    jobs: int = JOBS


@dataclass(frozen=True, slots=True)
class FairRun:
    """What came of it; s, and finish-time ratios by devices asked for."""

    case: FairCase
    mean: float
    makespan: float
    ratios: dict[int, tuple[float, ...]]
    published: tuple[float, ...]
    """Ratios with the crowd of Shockwave's figures."""

    @property
    def worst(self) -> float:
        """The largest ratio."""
        return max(max(each) for each in self.ratios.values())


def played(case: FairCase) -> FairRun:
    """Simulate one case."""
    world = drawn(case.seed, case.jobs, declared=case.declared)
    cluster = world.cluster
    setting = Setting(
        cluster,
        single_pool(cluster.devices_by_type()),
        Muster(makespan=0.0, fair=0.0) if case.policy == MEAN else POLICIES[case.policy],
        beliefs=partial(Learnt, cluster.node_devices()),
        seed=case.seed,
    )
    result = simulate(setting, world.arrivals)
    found, rho = summary(result), fairness(result)
    assert found.mean is not None
    assert found.makespan is not None
    assert len(rho) == len(result.records)
    sizes = np.array([record.devices for record in result.records])
    ratios = {int(size): tuple(rho[sizes == size].tolist()) for size in np.unique(sizes)}
    crowd = max(1.0, case.jobs / DEVICES)
    took = completion_times(result.records)
    alone = np.array([record.alone for record in result.records])
    return FairRun(case, found.mean, found.makespan, ratios, tuple((took / alone / crowd).tolist()))


def unfair(runs: Sequence[FairRun], size: int | None = None, above: float = UNFAIR) -> float:
    """Return the part of the jobs, of a size or of any, whose ratio is above this."""
    every = [r for run in runs for s, each in run.ratios.items() if size in (None, s) for r in each]
    return sum(ratio > above for ratio in every) / max(1, len(every))


def unfair_as_published(runs: Sequence[FairRun]) -> float:
    """Return the part of the jobs that are unfair by the crowd of Shockwave's figures."""
    return mean(ratio > UNFAIR for run in runs for ratio in run.published)


HEADING = (
    *("POLICY", "LENGTHS", "MEAN-S", "X-BEST", "MAKESPAN-S", "X-BEST", "WORST", "MEAN-WORST"),
    *("UNFAIR", "1", "2", "4", "8", ">1", "PUBLISHED-WORST", "UNFAIR"),
)


def rows(found: dict[tuple[str, bool], list[FairRun]]) -> Iterator[Sequence[str]]:
    """Each policy's line: means over the seeds of figures and of ratios to the best."""
    for (policy, declared), runs in found.items():
        peers = [other for (_, told), other in found.items() if told == declared]
        yield (
            *(policy, "declared" if declared else "learnt", f"{mean(r.mean for r in runs):,.0f}"),
            f"{over_best(runs, peers, 'mean'):.3f}",
            f"{mean(r.makespan for r in runs):,.0f}",
            f"{over_best(runs, peers, 'makespan'):.3f}",
            *(f"{max(r.worst for r in runs):.2f}", f"{mean(r.worst for r in runs):.2f}"),
            *(f"{100 * unfair(runs, size):.1f}%" for size in (None, 1, 2, 4, 8)),
            f"{100 * unfair(runs, above=1.0):.1f}%",
            f"{max(max(r.published) for r in runs):.2f}",
            f"{100 * unfair_as_published(runs):.1f}%",
        )


def over_best(runs: Sequence[FairRun], peers: Sequence[Sequence[FairRun]], figure: str) -> float:
    """Return the mean over the seeds of a figure over the least of any policy's."""
    best = [min(float(getattr(r, figure)) for r in same) for same in zip(*peers, strict=True)]
    return mean(float(getattr(run, figure)) / least for run, least in zip(runs, best, strict=True))


def main() -> None:
    """Simulate, print the table, then the targets."""
    arguments = parse(__doc__, seeds=10, quick=1)
    learnt = TOLD if arguments.quick else (*POLICIES, MEAN)
    groups = [(policy, False) for policy in learnt]
    groups += [] if arguments.quick else [(policy, True) for policy in TOLD]
    seeds, jobs = range(arguments.seeds), JOBS // 2 if arguments.quick else JOBS
    cases = [FairCase(policy, told, seed, jobs) for policy, told in groups for seed in seeds]
    with processes(arguments.j) as spread:
        every = iter(spread(played, cases))
        found = {group: [next(every) for _ in seeds] for group in groups}
    print_wide(HEADING, rows(found))
    for told in sorted({told for _, told in groups}):
        own = found[OWN, told]
        peers = [runs for (_, other), runs in found.items() if other == told]
        name = "declared" if told else "learnt"
        bar(f"fair-makespan-over-best-{name}", over_best(own, peers, "makespan"), LATEST)
        alone = zip(own, found[MEAN, told], strict=True)
        bar(f"fair-mean-over-mean-alone-{name}", mean(a.mean / b.mean for a, b in alone), SLOWER)
        bar(f"fair-worst-ratio-{name}", max(run.worst for run in own), WORST)
        bar(f"fair-unfair-{name}", unfair(own), MOST_UNFAIR)
        bar(f"fair-worst-ratio-published-{name}", max(max(run.published) for run in own), WORST)
        bar(f"fair-unfair-published-{name}", unfair_as_published(own), MOST_UNFAIR)


if __name__ == "__main__":
    main()
