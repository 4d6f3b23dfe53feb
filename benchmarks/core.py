"""Time of a cycle, of one placement and of the ledger, at three sizes of cluster, on one core; and of
planners in processes of their own, on two.

Half of the cluster is in use, by about half of the jobs. The others wait, in eight pools: one-device
jobs, elastic jobs, node contracts, gangs over several nodes. In the mix `roomy` what waits just about
fits; in `crowded` it asks for four times what is free, so that most jobs wait and each is told why; in
`storm` one pool has borrowed the whole cluster and all others ask for their own back at once.
With planners, jobs end and come from cycle to cycle in the mix `crowded`. More than two of them are
measured in one process, one after another, and what a core for each would make of it is calculated.
Prints tables, then one line per target.
"""

import argparse
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from random import Random

from muster.core.cycle.cycle import Memory, decide
from muster.core.quotas.ledger import Approved, Ledger
from muster.core.state.check import check
from muster.core.state.evolve import evolve
from muster.model.cluster import Cluster, Node
from muster.model.decision import Kind
from muster.model.event import Event, StartBegun, Started, Submitted
from muster.model.job import Job, Locality, Need, Role, RoleSpec
from muster.model.placement import Claim, Slot
from muster.model.plan import Part, Plan
from muster.model.pool import Pool, PoolTree, Quota
from muster.model.topology import ConfigurationSet, Layer, Level, Link, each_bit
from muster.model.view import View
from muster.place.board import Board
from muster.place.pack import pack
from muster.place.request import Request
from muster.policy.published.fifo import Fifo
from muster.policy.registry import POLICIES
from support.bars import bar, print_table
from support.planned_cycles import alone, beside, calculated
from support.planned_cycles import measure as planned_parts

SIZES = ((512, 100), (4_096, 1_000), (16_384, 4_000))
PER_NODE, PER_RACK, RACKS_PER_DOMAIN, POOLS = 8, 16, 8, 8
MOST_PLANNERS = 16
NEED = Need(devices=1, millicores=4_000, memory=16 * 10**9)


@dataclass(frozen=True, slots=True)
class Mix:
    """What share of the cluster is in use, by jobs how many times the usual size, and what waits."""

    used: float
    running_scale: int
    waiting_scale: int
    borrowed: bool = False
    """One pool has it all, and the others want their own."""

    def pool(self, random: Random, pools: int, *, runs: bool) -> str:
        """The pool of one more job."""
        if not self.borrowed:
            return f"p{random.randrange(pools)}"
        return "p0" if runs else f"p{random.randrange(1, pools)}"


MIXES = {"roomy": Mix(0.5, 1, 1), "crowded": Mix(0.5, 1, 4), "storm": Mix(1.0, 2, 1, borrowed=True)}


@dataclass(frozen=True, slots=True)
class Row:
    """Measured at one size: seconds of a cycle and of a placement (median, p99), and the decisions."""

    mix: str
    devices: int
    jobs: int
    cycle: float
    place: float
    place_p99: float
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


def pools_of(devices: int, pools: int = POOLS) -> PoolTree:
    """Equal pools that reserve half of the cluster."""
    quota = Quota(reservation=devices // (2 * pools))
    return PoolTree({f"p{i}": Pool(f"p{i}", quotas={"A100": quota}) for i in range(pools)})


def job_of(i: int, pool: str, random: Random, scale: int) -> Job:
    """One job of the mix: sizes 1 to 16 (mean about 4) or more, a third elastic, contracts on some."""
    size = random.choices((1, 2, 4, 8, 16), (0.40, 0.15, 0.20, 0.20, 0.05))[0] * scale
    most = size * 2 if size < PER_NODE and random.random() < 0.33 else size
    widest = {8: Level.NODE, 16: Level.RACK}.get(size, Level.CLUSTER)
    return Job(
        name=f"j{i:05}",
        pool=pool,
        roles=(RoleSpec(Role.WORKER, NEED, gang=size, least=size, most=most),),
        locality=Locality(widest),
        number=i + 1,
    )


def scene(mix: Mix, devices: int, jobs: int, seed: int, pools: int = POOLS) -> View:
    """A view with the mix's share of the devices in use and the rest of the jobs waiting."""
    random = Random(seed)
    view = View(0, cluster_of(devices), pools_of(devices, pools), {})
    board = Board(view.cluster)
    events: list[Event] = []
    for i in range(jobs):
        runs = (1 - mix.used) * devices < board.free_devices(["a"])
        scale = mix.running_scale if runs else mix.waiting_scale
        job = job_of(i, mix.pool(random, pools, runs=runs), random, scale)
        events.append(Submitted(job, at=float(i)))
        size = job.workers.gang
        request = Request(Plan((Part(Role.WORKER, size, NEED),)), ("a",), job.locality.widest)
        placement = pack(board, request) if runs else None
        if placement is not None:
            board.take(placement.slots)
            events += [
                StartBegun(job.number, 1, placement, float(i)),
                Started(job.number, 1, float(i)),
            ]
    return evolve(view, events)


def timed(call: Callable[[], object]) -> float:
    """Seconds of this process' own time for one call: a busy neighbour does not count."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def measure(mix: str, devices: int, jobs: int, repeats: int) -> Row:
    """One row of the table."""
    view = scene(MIXES[mix], devices, jobs, seed=1)
    now = float(jobs)
    decided = decide(Fifo(), view, now, Memory())
    check(view, decided)
    times = [timed(lambda: decide(Fifo(), view, now, Memory())) for _ in range(repeats)]
    cycle = statistics.median(times)
    board = Board(view.cluster)
    times = []
    for _ in range(10 * repeats):
        for size in (1, 2, 4, 8, 16, 64):
            request = Request(Plan((Part(Role.WORKER, size, NEED),)), ("a",))
            times.append(timed(lambda request=request: pack(board, request)))  # type: ignore[misc]
    kinds = [decision.kind for decision in decided.decisions]
    # Figures of a cycle that decides nothing would be worth nothing.
    assert Kind.START in kinds or Kind.PREEMPT in kinds
    return Row(
        mix,
        devices,
        jobs,
        cycle,
        statistics.median(times),
        statistics.quantiles(times, n=100)[-1],
        kinds.count(Kind.START),
        kinds.count(Kind.WAIT),
    )


def commit_rate(planners: int, nodes: int, seconds: float) -> tuple[float, float]:
    """Return approved claims per second with several planners at once, and the share rejected.

    Each planner takes a snapshot, plans eight gangs of one to four devices on it, each on a node of its
    fancy, commits them one by one, and gives old claims back so that half of the devices stay in use.
    """
    ledger = Ledger.of(View(0, cluster_of(16_384), pools_of(16_384), {}))
    stop = time.perf_counter() + seconds
    counts: list[tuple[int, int]] = []

    def plan(number: int) -> None:
        random, approved, rejected = Random(number), 0, 0
        held: deque[int] = deque()
        while time.perf_counter() < stop:
            seen = ledger.snapshot()
            for at in random.sample(range(nodes), 8):
                job = (approved + rejected) * planners + number
                slots = slots_on(at, seen.free[at], random.randint(1, 4))
                if not slots:
                    continue
                if isinstance(ledger.commit(Claim(job, seen.version, slots)), Approved):
                    approved += 1
                    held.append(job)
                else:
                    rejected += 1
            while len(held) > nodes * PER_NODE // (5 * planners):
                ledger.release(held.popleft())
        counts.append((approved, rejected))

    threads = [threading.Thread(target=plan, args=(n,)) for n in range(planners)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    approved = sum(a for a, _ in counts)
    rejected = sum(r for _, r in counts)
    return approved / seconds, rejected / max(1, approved + rejected)


def slots_on(node: int, free: int, wanted: int) -> tuple[Slot, ...]:
    """A gang of one-device tasks on the lowest free devices of a node, or nothing."""
    positions = list(each_bit(free))[:wanted]
    if len(positions) < wanted:
        return ()
    return tuple(Slot(Role.WORKER, i, f"n{node:05}", 1 << at, NEED) for i, at in enumerate(positions))


def cycles(rows: dict[tuple[str, int], Row], repeats: int) -> Iterator[Sequence[str]]:
    """Measure and yield each row of the first table."""
    for mix in MIXES:
        for devices, jobs in SIZES:
            row = rows[mix, devices] = measure(mix, devices, jobs, repeats)
            times = (row.cycle * 1e3, row.place * 1e6, row.place_p99 * 1e6)
            counts = (str(n) for n in (row.starts, row.waits))
            yield (mix, str(devices), str(jobs), *(f"{t:.1f}" for t in times), *counts)


def ledger_rates(seconds: float) -> Iterator[Sequence[str]]:
    """Measure and yield each row of the second table."""
    for planners in (1, 4, 16):
        for nodes in (2_048, 64):
            rate, rejected = commit_rate(planners, nodes, seconds)
            yield (str(planners), str(nodes), f"{rate:.0f}", f"{rejected:.2%}")


def planned(quick: bool, ratios: dict[str, float]) -> Iterator[Sequence[str]]:
    """Measure and yield each row of the third table: planners in processes, then by calculation."""
    devices, jobs = SIZES[-1]
    mix, cycles = MIXES["crowded"], 2 if quick else 6
    view = scene(mix, devices, jobs, seed=1, pools=MOST_PLANNERS)

    def new_job(number: int, pool: str, random: Random) -> Job:
        return job_of(number - 1, pool, random, mix.waiting_scale)

    for policy in (POLICIES["fifo"],) if quick else (POLICIES["fifo"], POLICIES["muster"]):
        clock, seconds, decisions = alone(policy, view, new_job, cycles)
        cells = (f"{each * 1e3:.0f}" for each in (clock, seconds))
        yield (policy.name, "none", *cells, "-", "-", f"{decisions / seconds:.0f}", "-", "-", "-")
        one, two = (planned_parts(policy, n, view, new_job, cycles) for n in (1, 2))
        ratios[policy.name] = two.rate / one.rate
        ratios[f"{policy.name}-clock"] = two.clock_rate / one.clock_rate
        same, parts, again, late = one, one, 0.0, 0.0
        for count in (1, 2, 4, 8, MOST_PLANNERS):
            if count > 1:
                parts, again, late = beside(policy, count, view, new_job, cycles)
            if count == 2:
                same, parts = parts, two
            elif count > 2:
                parts = calculated(two, same, parts)
            times = (parts.clock, parts.cycle, parts.centre, parts.planner)
            yield (
                policy.name,
                f"{parts.planners}{'' if parts.planners <= 2 else ' calc.'}",
                *(f"{each * 1e3:.0f}" for each in times),
                f"{parts.rate:.0f}",
                f"{again:.1%}",
                f"{late:.1%}",
                f"{parts.sent / 1e3:.0f}",
            )


def print_bars(rows: dict[tuple[str, int], Row], ratios: dict[str, float]) -> None:
    """One line per target. What a storm asks does not grow in step with the jobs: no ratio for it."""
    largest = SIZES[-1][0]
    for mix in MIXES:
        bar(f"cycle-16384-devices-4000-jobs-{mix}-s", rows[mix, largest].cycle, 1.0)
    for mix in ("roomy", "crowded"):
        for (small, fewer), (large, more) in pairwise(SIZES):
            growth = rows[mix, large].cycle / rows[mix, small].cycle
            allowed = more * log(more) / (fewer * log(fewer))
            bar(f"cycle-growth-{mix}-{small}-to-{large}-ratio", growth, allowed)
    bar("placement-16384-devices-median-ms", rows["roomy", largest].place * 1e3, 1.0)
    bar("placement-16384-devices-p99-ms", rows["roomy", largest].place_p99 * 1e3, 1.0)
    for policy, ratio in ratios.items():
        bar(f"planners-2-over-1-16384-devices-{policy}-ratio", ratio, 1.5, above=True)


def main() -> None:
    """Measure, print the tables, then the targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats; under 30 s")
    quick = parser.parse_args().quick
    rows: dict[tuple[str, int], Row] = {}
    heading = "MIX DEVICES JOBS CYCLE/ms PLACE/us P99/us START WAIT"
    print_table(heading, cycles(rows, repeats=3 if quick else 15))
    print_table("PLANNERS NODES COMMITS/s REJECTED", ledger_rates(0.5 if quick else 3.0))
    ratios: dict[str, float] = {}
    heading = "POLICY PLANNERS CLOCK/ms CYCLE/ms CENTRE/ms PLANNER/ms DECIDED/s AGAIN LATE SENT/kB"
    print_table(heading, planned(quick, ratios))
    print_bars(rows, ratios)


if __name__ == "__main__":
    main()
