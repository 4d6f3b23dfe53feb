"""Time of a cycle, of one placement and of the ledger, at three sizes of cluster, on one core.

Half of the cluster is in use, by about half of the jobs; the other half waits, in eight pools, with
one-device jobs, elastic jobs, node contracts and gangs over several nodes. Prints a table, then one line per
target.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from random import Random

from muster.core.check import check
from muster.core.cycle import Memory, decide
from muster.core.evolve import evolve
from muster.core.ledger import Approved, Ledger
from muster.model.cluster import Cluster, Node
from muster.model.decision import Kind
from muster.model.event import Event, StartBegun, Started, Submitted
from muster.model.job import Job, Locality, Need, Role, RoleSpec
from muster.model.placement import Claim, Slot
from muster.model.plan import Part, Plan
from muster.model.pool import Pool, PoolTree, Quota
from muster.model.topology import ConfigurationSet, Layer, Level, Link
from muster.model.view import View
from muster.place.board import Board
from muster.place.pack import pack
from muster.place.request import Request
from muster.policy.fifo import Fifo

SIZES = ((512, 100), (4_096, 1_000), (16_384, 4_000))
PER_NODE, PER_RACK, RACKS_PER_DOMAIN, POOLS = 8, 16, 8, 8
NEED = Need(devices=1, millicores=4_000, memory=16 * 10**9)


@dataclass(frozen=True, slots=True)
class Row:
    """Measured at one size: seconds of a cycle, of a placement (median, worst), starts in the cycle."""

    devices: int
    jobs: int
    cycle: float
    place: float
    place_worst: float
    starts: int
    waits: int


def cluster_of(devices: int) -> Cluster:
    """Nodes of eight devices: two sockets, four switches; racks of 16 nodes, domains of 8 racks."""
    link = Link(12e9, 2e-6)
    layers = (
        Layer(Level.SWITCH, tuple(0b11 << i for i in range(0, 8, 2)), link),
        Layer(Level.SOCKET, (0x0F, 0xF0), link),
        Layer(Level.NODE, (0xFF,), link),
    )
    kind = ConfigurationSet(
        "a", "A100", "ampere", 8, 80 * 10**9, layers, 64_000, 512 * 10**9, Link(12.5e9, 5e-6)
    )
    nodes = tuple(
        Node(
            f"n{i:05}",
            "a",
            f"r{i // PER_RACK:04}",
            f"d{i // PER_RACK // RACKS_PER_DOMAIN:03}",
            0xFF,
            kind.millicores,
            kind.memory,
        )
        for i in range(devices // PER_NODE)
    )
    links = {level: Link(12.5e9, 5e-6) for level in (Level.RACK, Level.DOMAIN, Level.CLUSTER)}
    return Cluster("bench", {"a": kind}, nodes, links)


def pools_of(devices: int) -> PoolTree:
    """Eight equal pools that reserve half of the cluster."""
    quota = Quota(reservation=devices // (2 * POOLS))
    return PoolTree({f"p{i}": Pool(f"p{i}", quotas={"A100": quota}) for i in range(POOLS)})


def job_of(i: int, random: Random) -> Job:
    """One job of the mix: sizes 1 to 16 (mean about 4), a third elastic, contracts on the larger."""
    size = random.choices((1, 2, 4, 8, 16), (0.40, 0.15, 0.20, 0.20, 0.05))[0]
    most = size * 2 if size < PER_NODE and random.random() < 0.33 else size
    widest = {8: Level.NODE, 16: Level.RACK}.get(size, Level.CLUSTER)
    return Job(
        name=f"j{i:05}",
        pool=f"p{random.randrange(POOLS)}",
        roles=(RoleSpec(Role.WORKER, NEED, gang=size, least=size, most=most),),
        locality=Locality(widest),
    )


def half_full(devices: int, jobs: int, seed: int) -> View:
    """A view with half of the devices in use and the rest of the jobs waiting."""
    random = Random(seed)
    view = View(0, cluster_of(devices), pools_of(devices), {})
    board = Board(view.cluster)
    used = 0
    events: list[Event] = []
    for i in range(jobs):
        job = job_of(i, random)
        events.append(Submitted(job, at=float(i)))
        size = job.workers.gang
        if used + size > devices // 2:
            continue
        request = Request(Plan((Part(Role.WORKER, size, NEED),)), ("a",), job.locality.widest)
        placement = pack(board, request)
        assert placement is not None
        board.take(placement.slots)
        used += size
        events += [StartBegun(job.name, 1, placement, float(i)), Started(job.name, 1, float(i))]
    return evolve(view, events)


def timed(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def measure(devices: int, jobs: int, repeats: int) -> Row:
    """One row of the table."""
    view = half_full(devices, jobs, seed=1)
    now = float(jobs)
    decided = decide(Fifo(), view, now, Memory())
    check(view, decided)
    cycle = statistics.median(
        timed(lambda: decide(Fifo(), view, now, Memory())) for _ in range(repeats)
    )
    board = Board(view.cluster)
    times = []
    for _ in range(repeats):
        for size in (1, 2, 4, 8, 16, 64):
            request = Request(Plan((Part(Role.WORKER, size, NEED),)), ("a",))
            times.append(timed(lambda request=request: pack(board, request)))  # type: ignore[misc]
    kinds = [decision.kind for decision in decided.decisions]
    return Row(
        devices,
        jobs,
        cycle,
        statistics.median(times),
        max(times),
        kinds.count(Kind.START),
        kinds.count(Kind.WAIT),
    )


def commit_rate(planners: int, seconds: float) -> tuple[float, float]:
    """Approved claims per second with so many planners at once, and the share rejected."""
    ledger = Ledger.of(View(0, cluster_of(16_384), pools_of(16_384), {}))
    stop = time.perf_counter() + seconds
    counts: list[tuple[int, int]] = []

    def plan(number: int) -> None:
        random, approved, rejected = Random(number), 0, 0
        while time.perf_counter() < stop:
            seen = ledger.snapshot()
            for i in range(32):
                # Every planner likes the same few nodes best, as planners with one taste do.
                at = random.randrange(64)
                name = f"p{number}-{approved + rejected}-{i}"
                bits = seen.free[at] & -seen.free[at]
                slot = Slot(Role.WORKER, 0, f"n{at:05}", bits, NEED)
                if bits and isinstance(ledger.commit(Claim(name, seen.version, (slot,))), Approved):
                    approved += 1
                    ledger.release(name)
                else:
                    rejected += 1
        counts.append((approved, rejected))

    threads = [threading.Thread(target=plan, args=(n,)) for n in range(planners)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    approved = sum(a for a, _ in counts)
    rejected = sum(r for _, r in counts)
    return approved / seconds, rejected / max(1, approved + rejected)


def bar(name: str, figure: float, target: float, *, above: bool = False) -> None:
    """Print one target's line."""
    fine = figure >= target if above else figure <= target
    sign = ">=" if above else "<="
    print(f"bar: {name} {figure:.4g} {sign}{target:.4g} {'ok' if fine else 'short'}")


def main() -> None:
    """Measure, print the table, then the targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repeat of each; under 30 s")
    quick = parser.parse_args().quick
    rows = []
    print(
        f"{'DEVICES':>8}{'JOBS':>6}{'CYCLE ms':>10}{'PLACE us':>10}{'WORST us':>10}{'START':>7}{'WAIT':>6}"
    )
    for devices, jobs in SIZES:
        row = measure(devices, jobs, repeats=3 if quick else 15)
        rows.append(row)
        print(
            f"{row.devices:>8}{row.jobs:>6}{row.cycle * 1e3:>10.1f}{row.place * 1e6:>10.0f}"
            f"{row.place_worst * 1e6:>10.0f}{row.starts:>7}{row.waits:>6}"
        )
    print(f"\n{'PLANNERS':>8}{'COMMITS/s':>11}{'REJECTED':>10}")
    for planners in (1, 4, 16):
        rate, conflicts = commit_rate(planners, 1.0 if quick else 3.0)
        print(f"{planners:>8}{rate:>11.0f}{conflicts:>10.1%}")
    print()
    small, middle, large = rows
    bar("cycle-16384-devices-4000-jobs-s", large.cycle, 1.0)
    bar("placement-16384-devices-ms", large.place * 1e3, 1.0)
    bar("placement-16384-devices-worst-ms", large.place_worst * 1e3, 1.0)
    for name, a, b in (("512-to-4096", small, middle), ("4096-to-16384", middle, large)):
        allowed = b.jobs * log(b.jobs) / (a.jobs * log(a.jobs))
        bar(f"cycle-growth-{name}-ratio", b.cycle / a.cycle, allowed)


if __name__ == "__main__":
    main()
