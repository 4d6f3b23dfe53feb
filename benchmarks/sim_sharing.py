"""KAIST's claim: shares that move with the jobs that come and go, against shares that do not.

The same jobs under static and under dynamic allocation. Static: `fifo` gives each job what it asked for
and nothing else, with backfill; `static-share` starts each job with an equal share of the cluster,
between one device and four times what it asked for, and leaves it that. `srtf` stops and starts jobs
of the size asked for, shortest first: it moves time, not shares, and tells how much of a gain is order
alone. Dynamic: `afs`, `optimus` and Muster's own resize jobs between the same bounds at every event.

64 devices, on 8 alike nodes or on three types (V100, P100, K80); jobs of 1 to 8 devices (Gavel's mix),
Poisson arrivals, run times exponential or with a heavy tail; light (half of the devices asked for on
average) and heavy load (nine tenths). Speed grows as devices^0.8, and each node more than needed makes
steps 5 % longer. A start costs 30 s, a resize 1 s (live); the last table asks what is left of it all
when a resize is a restart of 30 s. Everybody who looks at lengths and speeds knows the true ones.
Prints tables with ratios to `fifo` [95 % by bootstrap], then one line per target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from muster.model.cluster import Cluster
from muster.model.pool import single_pool
from muster.perf.devices import RATES
from muster.policy.base import Policy
from muster.policy.registry import POLICIES
from muster.sim.engine import Setting
from muster.sim.executor import Pauses
from muster.sim.report.compare import Digest
from muster.sim.trace.roles import workers
from muster.sim.truth import Arrival
from muster.sim.worlds.power import PowerLaw
from support.bars import bar
from support.sim_clusters import cluster_of
from support.sim_runs import (
    OWN,
    Contender,
    Spread,
    against,
    makespan_ratio,
    parse,
    played,
    print_wide,
    processes,
    runs,
    shown,
)
from support.sim_static import StaticShare

STATIC = "fifo"
FIXED = (STATIC, "srtf")
"""Those that give jobs what they asked for."""
DYNAMIC = ("afs", "optimus", OWN)
LIVE, RESTART = 1.0, 30.0
"""s without progress after a resize."""
CLUSTERS = {
    "one type": cluster_of("one", {"P100": 8}),
    "three types": cluster_of("three", {"V100": 3, "P100": 3, "K80": 2}),
}
"""Nodes of eight devices. Where a job has no preference the first type is tried first."""
REFERENCE = "P100"
"""Run times are those on this type."""
TRACES = {
    "poisson": "poisson:sizes=1:0.7+2:0.1+4:0.15+8:0.05",
    # A day at the most: with longer ones a few hundred jobs say little about the mean.
    "heavy-tail": "heavy-tail:shortest=300,longest=86400",
}
LOADS = {"light": 0.5, "heavy": 0.9}


@dataclass(frozen=True, slots=True)
class Case:
    """A world in which all contenders meet."""

    trace: str
    load: str
    cluster: str
    jobs: int
    pause: float = LIVE

    @property
    def spec(self) -> str:
        """As the trace's generator reads it."""
        return (
            f"{TRACES[self.trace]},jobs={self.jobs},load={LOADS[self.load]},capacity=64,"
            "elastic=4,spread=0.05"
        )


def as_asked(pause: float, arrival: Arrival, number: int) -> Arrival:
    """A job that has what it asked for, or nothing."""
    asked = arrival.job.workers.gang
    return _of(arrival, asked, asked, pause)


def from_one(pause: float, arrival: Arrival, number: int) -> Arrival:
    """A job that runs with any number of devices from one to the most it can use."""
    return _of(arrival, 1, arrival.job.workers.most, pause)


def _of(arrival: Arrival, least: int, most: int, pause: float) -> Arrival:
    job = replace(arrival.job, roles=workers(least, most), pause=pause)
    truth = arrival.truth
    assert isinstance(truth, PowerLaw)
    speed = replace(truth.speed, factors=factors(arrival))
    return replace(arrival, job=job, truth=replace(truth, speed=speed))


def factors(arrival: Arrival) -> dict[str, float]:
    """The job's speed by type: (rated operations/s against the reference)^u, u drawn from 0 to 1.

    With u = 1 computing is all of its time, with 0 none of it is: input, launches, the host.
    """
    bound = Random(f"{arrival.job.name}/{arrival.at}").random()
    return {name: (RATES[name].single / RATES[REFERENCE].single) ** bound for name in RATES}


def contenders(case: Case) -> list[Contender]:
    """The static ones, the control, and the dynamic ones."""
    cluster = CLUSTERS[case.cluster]
    fixed, free = partial(as_asked, case.pause), partial(from_one, case.pause)
    static = [(POLICIES[STATIC], fixed), (StaticShare(), free), (POLICIES["srtf"], fixed)]
    dynamic = [(POLICIES[name], free) for name in DYNAMIC]
    return [Contender(p.name, _setting(cluster, p), change) for p, change in (*static, *dynamic)]


def _setting(cluster: Cluster, policy: Policy) -> Setting:
    devices = cluster.devices_by_type()
    return Setting(cluster, single_pool(devices), policy, pauses=Pauses(start=RESTART))


def measured(spread: Spread, case: Case, seeds: int) -> list[Digest]:
    """All contenders in one world."""
    return list(spread(played, runs(contenders(case), case.spec, seeds)))


HEADING = (
    *("POLICY", "MEAN-S", "X-FIFO", "P95-S", "MAKESPAN-S", "X-FIFO"),
    *("WAIT-S", "USED", "RESIZES", "STOPS", "X-BOUND"),
)


def rows(digests: Sequence[Digest]) -> Iterator[Sequence[str]]:
    """A row for each contender."""
    found, ratios = against(digests, STATIC)
    # The bound must be of jobs that may have all the devices they can use.
    free, _ = against([d for d in digests if d.policy not in FIXED], "static-share")
    bound = free.bounds.best if free.bounds else 0.0
    for row in found.rows:
        figures = row.figures
        yield (
            row.policy,
            f"{figures['mean']:.0f}",
            shown(ratios[row.policy]),
            f"{figures['p95']:.0f}",
            f"{figures['makespan']:.0f}",
            shown(makespan_ratio(digests, row.policy, STATIC)),
            f"{figures['wait']:.0f}",
            f"{100 * (figures['utilisation'] or 0):.0f}%",
            f"{figures['resizes']:.0f}",
            f"{figures['preemptions']:.0f}",
            f"{(figures['mean'] or 0) / bound:.2f}",
        )


def told(case: Case) -> str:
    """The case in a line."""
    return f"{case.trace}, {case.load} load, {case.cluster}, a resize costs {case.pause:.0f} s"


@dataclass(frozen=True, slots=True)
class Gain:
    """What Muster's own policy makes of a case: its time and makespan, divided by the static's."""

    case: Case
    time: float
    makespan: float
    to_share: float
    """Its time against that of equal static shares."""


def gain(case: Case, digests: Sequence[Digest]) -> Gain:
    """Of one case."""
    _, to_fifo = against(digests, STATIC)
    _, to_share = against(digests, "static-share")
    makespan = makespan_ratio(digests, OWN, STATIC).value
    return Gain(case, to_fifo[OWN].value, makespan, to_share[OWN].value)


def cases(jobs: int, *, quick: bool) -> list[Case]:
    """All worlds, those with the costly resize last."""
    if quick:
        return [Case("poisson", "heavy", "one type", jobs), Case("poisson", "light", "one type", jobs)]
    every = [Case(t, load, c, jobs) for c in CLUSTERS for t in TRACES for load in LOADS]
    return [*every, Case("poisson", "heavy", "one type", jobs, pause=RESTART)]


REASONS = """\
What it is made of, as far as the controls (`static-share`, `srtf`) tell; the rest is a reading
- At light load most of the gain is idle devices put to use: jobs that ask for 1 device run on 4. A
  larger share at the start (`static-share`) has much of it, but jobs that start in a crowd keep their
  small share when the crowd is gone, and those that start alone keep theirs when it comes.
- At heavy load equal static shares keep little of it and lengthen the makespan. What is left should be
  that short jobs get more while they are short, and each job few devices when there are many
  (devices^0.8: the last device of a share does least).
- With a heavy tail the makespan is that of a few very long jobs: it falls because they may have four
  times what they asked for whenever others leave it.
- `srtf` gains by order alone, little, and pays for it in makespan; on three types it is no gain at all,
  probably as short jobs take the fast devices and the longest stay on the slow ones.
- The paper gives no figures for this claim: it is direction, not size, that is held against it.
"""


def main() -> None:
    """Simulate, print the tables, then the targets."""
    arguments = parse(__doc__ or "", seeds=4, quick=2)
    gains = []
    with processes(arguments.j) as spread:
        for case in cases(120 if arguments.quick else 300, quick=arguments.quick):
            digests = measured(spread, case, arguments.seeds)
            print(f"{told(case)}: {case.jobs} jobs x {arguments.seeds} seeds")
            print_wide(HEADING, rows(digests))
            gains.append(gain(case, digests))
    print(REASONS)
    for each in gains:
        case = each.case
        name = "-".join(f"{case.trace} {case.load} {case.cluster} {case.pause:.0f}s".split())
        bar(f"dynamic-time-of-static-{name}", each.time, 1.0)
        bar(f"dynamic-makespan-of-static-{name}", each.makespan, 1.0)
        bar(f"dynamic-time-of-static-share-{name}", each.to_share, 1.0)


if __name__ == "__main__":
    main()
