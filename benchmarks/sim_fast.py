"""Time and memory of the simulator: the Philly extract, a T4 workload, and growth with the jobs.

The Philly extract is run whole on 2,490 devices, each policy in a process of its own, whose largest
memory is taken; the T4 workloads under their published rules; and a Philly-like trace of one load, ever
longer, for the cost of an event. Times are of the processor, so that a busy neighbour does not count.
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
from muster.sim.scenario.run import simulate
from muster.sim.trace.open_trace import TraceOptions, open_trace
from muster.sim.truth import Arrival
from support.bars import bar, print_table
from support.t4_cluster import WORKLOADS, Case, mean
from support.t4_cluster import run as run_t4

ROOT = Path(__file__).resolve().parents[1]
PHILLY = ROOT.parent / "shared" / "data" / "philly.csv"
CLUSTERS = ROOT / "examples" / "clusters"
LENGTHS = (1_000, 4_000, 16_000, 32_000)
"""Jobs of the traces of one load."""


def trace(name: str) -> Iterator[Arrival]:
    """Return `philly`, or a Philly-like trace of this many jobs at four fifths of 512 devices."""
    if name == "philly":
        if not PHILLY.is_file():
            raise SystemExit(f"the extract is not there: {PHILLY} (see docs/reference/traces.md)")
        return open_trace(str(PHILLY), TraceOptions(one_pool=True))
    return open_trace(f"philly-like:jobs={name},load=0.8,capacity=512", TraceOptions(seed=1))


def one(policy: str, name: str) -> dict[str, float]:
    """Run one simulation in this process and say what it took."""
    path = CLUSTERS / ("philly.yaml" if name == "philly" else "one-type-64x8.yaml")
    cluster = load_cluster(path).cluster
    begun = time.process_time()
    setting = Setting(cluster, single_pool(), POLICIES[policy], Rules())
    result = simulate(setting, trace(name))
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


def main() -> None:
    """Measure, print the tables, then the targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short traces, one workload; under 30 s")
    parser.add_argument("--one", nargs=2, metavar=("POLICY", "TRACE"), help="one simulation, as JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(*arguments.one)))
        return
    heading = "POLICY TRACE JOBS EVENTS CPU/s us/EVENT MB MEAN/s WAITED"
    lengths = LENGTHS[:2] if arguments.quick else LENGTHS
    kept: dict[tuple[str, str], dict[str, float]] = {}
    full = [] if arguments.quick else [("fifo", "philly"), ("tiresias", "philly")]
    growth = [(policy, str(n)) for policy in ("fifo", "tiresias") for n in lengths]
    print_table(heading, rows([*full, *growth], kept))
    numbers = WORKLOADS[:1] if arguments.quick else WORKLOADS
    table = "POLICY WORKLOAD CYCLES CPU/s MEAN/s"
    print_table(table, workloads("tiresias", Case(elastic=False), numbers))
    own = Case(oracle=False, strategy="adaptive", rounds=False)
    print_table(table, workloads("muster", own, numbers))
    for policy, _ in full:
        bar(f"philly-{policy}-s", kept[policy, "philly"]["cpu"], 60.0)
        bar(f"philly-{policy}-mb", kept[policy, "philly"]["megabytes"], 1000.0)
    bar("t4-tiresias-s", SLOWEST["tiresias"], 1.0)
    bar("t4-muster-s", SLOWEST["muster"], 5.0)
    for policy in ("fifo", "tiresias"):
        few, many = (kept[policy, str(n)] for n in (lengths[0], lengths[-1]))
        ratio = (many["cpu"] / many["events"]) / (few["cpu"] / few["events"])
        bar(f"cost-of-an-event-{policy}-ratio", ratio, log(lengths[-1]) / log(lengths[0]))


if __name__ == "__main__":
    main()
