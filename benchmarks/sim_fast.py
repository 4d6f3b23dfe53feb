"""Time and memory of the simulator and of a cycle: what forecasts, what-if and benchmarks cost.

The Philly extract is run whole on 2,490 devices, each policy in a process of its own, whose largest
memory is taken; the T4 workloads under their published rules; Philly-like traces of one load, ever
longer, for the cost of an event; elastic ones under Muster's own policy, which learns all speeds; and
single cycles of it on large clusters. Times are of the processor: a busy neighbour does not count.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path

# Its threads gain nothing on matrices as small as ours, and lose much on a busy machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from muster.core.cycle.cycle_state import Rules
from muster.files.cluster.cluster_file import load_cluster
from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.engine import Setting
from muster.sim.result import Result
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.prepare import prepare, run_prepared
from muster.sim.scenario.run import simulate
from muster.sim.trace.open_trace import TraceOptions, open_trace
from muster.sim.truth import Arrival
from support.bars import bar, print_table
from support.large_cycles import CycleTimes, measure_cycles
from support.t4_cluster import WORKLOADS, Case, mean
from support.t4_cluster import run as run_t4

Bar = tuple[str, float, float]
"""A target's name, the figure, and the most that it may be."""
ROOT = Path(__file__).resolve().parents[1]
PHILLY = ROOT.parent / "shared" / "data" / "philly.csv"
CLUSTERS = ROOT / "examples" / "clusters"
LENGTHS = (1_000, 4_000, 8_000)
"""Jobs of the traces of one load."""
SHORT = (250, 500)
ELASTIC = {"500": 5.0, "2000": 25.0}
"""Jobs of the elastic traces, and the most CPU s that each may take."""
MOST_SECONDS = {"fifo": 60.0, "tiresias": 60.0, "muster": 600.0}
"""CPU s that the Philly extract may take."""
LARGE = ((16_384, 4_000), (65_536, 16_000))
"""Devices and jobs of single cycles."""
QUICK_ELASTIC, QUICK_LARGE = "100", (4_096, 1_000)
"""What `--quick` shows of the last two; it has no targets."""


def trace(name: str) -> Iterator[Arrival]:
    """Return `philly`, or a Philly-like trace of this many jobs at four fifths of 512 devices."""
    if name == "philly":
        if not PHILLY.is_file():
            raise SystemExit(f"the extract is not there: {PHILLY} (see docs/reference/traces.md)")
        return open_trace(str(PHILLY), TraceOptions(one_pool=True))
    return open_trace(f"philly-like:jobs={name},load=0.8,capacity=512", TraceOptions(seed=1))


def rigid(policy: str, name: str) -> Result:
    """Run a trace of jobs of one size, with true lengths known."""
    path = CLUSTERS / ("philly.yaml" if name == "philly" else "one-type-64x8.yaml")
    setting = Setting(load_cluster(path).cluster, single_pool(), POLICIES[policy], Rules())
    return simulate(setting, trace(name))


def elastic(policy: str, name: str) -> Result:
    """Run a trace of elastic jobs as `muster sim run` does, which learns speeds and lengths."""
    spec = f"philly-like:jobs={name.removeprefix('elastic-')},load=0.9,capacity=512,elastic=4"
    cluster = str(CLUSTERS / "one-type-64x8.yaml")
    return run_prepared(
        prepare(Configuration(cluster=cluster, trace=spec, policy=policy, one_pool=True))
    )


def one(policy: str, name: str) -> dict[str, float]:
    """Run one simulation in this process and say what it took."""
    begun = time.process_time()
    result = elastic(policy, name) if name.startswith("elastic") else rigid(policy, name)
    done = [r for r in result.records if r.ended is not None]
    return {
        "jobs": len(done),
        "cpu": time.process_time() - begun,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "cycles": result.cycles,
        "events": result.events,
        "mean": sum(r.ended - r.submitted for r in done if r.ended is not None) / max(1, len(done)),
        "waited": sum(r.started > r.submitted for r in done if r.started is not None),
    }


def apart(policy: str, name: str) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--one", policy, name]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(answer)
    return found


def rows(
    cases: Sequence[tuple[str, str]], kept: dict[tuple[str, str], dict[str, float]]
) -> Iterator[list[str]]:
    """Measure and yield each row."""
    for policy, name in cases:
        row = kept[policy, name] = apart(policy, name)
        each = row["cpu"] / row["events"] * 1e6
        yield [
            policy,
            name,
            f"{row['jobs']:,.0f}",
            f"{row['events']:,.0f}",
            f"{row['cpu']:.1f}",
            f"{each:.0f}",
            f"{row['megabytes']:.0f}",
            f"{row['mean']:,.0f}",
            f"{row['waited']:,.0f}",
        ]


def workloads(policy: str, case: Case, numbers: Sequence[int]) -> Iterator[list[str]]:
    """Measure each workload's time; the slowest goes into `SLOWEST`."""
    for number in numbers:
        result = run_t4(POLICIES[policy], number, case)
        SLOWEST[policy] = max(SLOWEST.get(policy, 0.0), result.cpu)
        yield [policy, str(number), f"{result.cycles:,}", f"{result.cpu:.2f}", f"{mean(result):,.0f}"]


SLOWEST: dict[str, float] = {}


def large_cycles(
    sizes: Sequence[tuple[int, int]], repeats: int, kept: dict[int, CycleTimes]
) -> Iterator[list[str]]:
    """Measure and yield each size."""
    for devices, jobs in sizes:
        found = kept[devices] = measure_cycles(devices, jobs, repeats)
        times = (found.full, found.one_job, found.look, found.quiet, found.quiet_mean)
        told = (f"{found.changes:,}", f"{found.still:.2f}")
        yield [f"{devices:,}", f"{jobs:,}", *(f"{1e3 * s:.0f}" for s in times), *told]


Kept = dict[tuple[str, str], dict[str, float]]
"""What each simulation took, by policy and trace."""
HEADING = "POLICY TRACE JOBS EVENTS CPU/s us/EVENT MB MEAN/s WAITED"


def philly(quick: bool) -> Iterator[Bar]:
    """Run the whole extract under each policy."""
    if quick:
        return
    kept: Kept = {}
    print_table(HEADING, rows([(each, "philly") for each in MOST_SECONDS], kept))
    for policy, most in MOST_SECONDS.items():
        yield f"philly-{policy}-s", kept[policy, "philly"]["cpu"], most
        yield f"philly-{policy}-mb", kept[policy, "philly"]["megabytes"], 500.0


def growth(quick: bool) -> Iterator[Bar]:
    """Run ever longer traces of one load."""
    lengths, policies, kept = SHORT if quick else LENGTHS, ("fifo", "tiresias"), Kept()
    print_table(HEADING, rows([(policy, str(n)) for policy in policies for n in lengths], kept))
    for policy in policies:
        few, many = (kept[policy, str(n)] for n in (lengths[0], lengths[-1]))
        ratio = (many["cpu"] / many["events"]) / (few["cpu"] / few["events"])
        yield f"cost-of-an-event-{policy}-ratio", ratio, log(lengths[-1]) / log(lengths[0])


def lively(quick: bool) -> Iterator[Bar]:
    """Run elastic traces under Muster's own policy."""
    kept: Kept = {}
    names = [QUICK_ELASTIC] if quick else list(ELASTIC)
    print_table(HEADING, rows([("muster", f"elastic-{jobs}") for jobs in names], kept))
    for jobs in names:
        if jobs in ELASTIC:
            yield f"elastic-{jobs}-muster-s", kept["muster", f"elastic-{jobs}"]["cpu"], ELASTIC[jobs]


def t4(quick: bool) -> Iterator[Bar]:
    """Run the published workloads."""
    numbers, table = WORKLOADS[:1] if quick else WORKLOADS, "POLICY WORKLOAD CYCLES CPU/s MEAN/s"
    own = Case(oracle=False, strategy="adaptive", rounds=False)
    for policy, case in (("tiresias", Case(elastic=False)), ("muster", own)):
        print_table(table, workloads(policy, case, numbers))
        yield f"t4-{policy}-s", SLOWEST[policy], 1.0


def cycles(quick: bool) -> Iterator[Bar]:
    """Measure single cycles on large clusters."""
    kept: dict[int, CycleTimes] = {}
    sizes, repeats = ((QUICK_LARGE,), 1) if quick else (LARGE, 5)
    heading = "DEVICES JOBS FULL/ms ONE/ms LOOK/ms QUIET/ms MEAN/ms CHANGES QUIET"
    print_table(heading, large_cycles(sizes, repeats, kept))
    (small, _), (large, _) = LARGE
    if small in kept:
        yield f"quiet-cycle-{small}-ms", 1e3 * kept[small].quiet, 30.0
        yield f"quiet-cycles-mean-{small}-ms", 1e3 * kept[small].quiet_mean, 30.0
        yield f"full-cycle-{small}-s", kept[small].full, 0.4
        yield f"full-cycle-{large}-s", kept[large].full, 2.0


PARTS = {each.__name__: each for each in (philly, growth, lively, t4, cycles)}


def main() -> None:
    """Measure, print the tables, then the targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short traces, one workload; under 30 s")
    parser.add_argument("--one", nargs=2, metavar=("POLICY", "TRACE"), help="one simulation, as JSON")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be given again")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(*arguments.one)))
        return
    found = [each for part in arguments.only or PARTS for each in PARTS[part](arguments.quick)]
    for name, figure, most in found:
        bar(name, figure, most)


if __name__ == "__main__":
    main()
