"""Synchronisations for real over shaped links: one process in a namespace for each worker."""

import multiprocessing
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor

from muster.runtime.comm.base import Communicator
from muster.runtime.comm.choose import SyncChoice, choose, make
from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.probe import probe
from muster.runtime.comm.store import StoreClient, Stores
from muster.runtime.members.peers import PeerServer
from muster.wire.tasks.messages import Member
from support.cases import payload_rate
from support.netns import Namespace, enter, shaped_network
from support.spawned import receive, stop

DEADLINE = 60.0
"""Seconds after which a synchronisation, or a whole set's report, counts as failed."""
PRIORITY = -15
"""What else runs on the machine must not hold up the links, which are the scarce thing here."""
FIRST = 1_000_000
"""Bytes of the first bucket: small, so that something is under way early, as in training."""

Spawn = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class Task:
    """What one process is told."""

    rank: int
    homes: tuple[Namespace, ...]
    total: int
    rounds: int
    probing: float


@dataclass(frozen=True, slots=True)
class Way:
    """One way to synchronise: what was chosen and predicted, and the seconds it took."""

    name: str
    choice: SyncChoice
    bandwidths: tuple[float, ...]
    seconds: float

    @property
    def predicted(self) -> float:
        """Seconds that the choice was predicted to take."""
        return self.choice.predicted[self.choice.kind]


def measure(rates: Sequence[float], total: int, rounds: int, probing: float) -> list[Way]:
    """The ring, the choice with links given, and that with links probed, over links of these rates."""
    with shaped_network(rates) as homes:
        tasks = [Task(rank, homes, total, rounds, probing) for rank in range(len(homes))]
        reports = _run_all(tasks)
    ways: list[Way] = []
    for each in zip(*reports, strict=True):
        # The slowest rank of each round, as the next step waits for it; rounds go through all ways.
        slowest = [max(times) for times in zip(*(seconds for _, seconds in each), strict=True)]
        ways.append(replace(each[0][0], seconds=statistics.median(slowest)))
    return ways


Report = list[tuple[Way, list[float]]]


def run_task(task: Task, pipe: Connection) -> None:
    """The life of one process: enter the namespace, meet the others, choose, synchronise, report."""
    _come_first()
    enter(task.homes[task.rank].name)
    torch.set_num_threads(1)
    home = task.homes[task.rank].address
    if task.rank == 0:
        server = PeerServer(home, "")
        Stores(server)
        server.start()
        pipe.send(server.address)
    store = StoreClient(pipe.recv(), "", "1-owners", DEADLINE)
    group = GlooGroup(store, task.rank, len(task.homes), home)
    pipe.send(_synchronise(task, group))
    pipe.recv()
    group.close()


def _synchronise(task: Task, group: GlooGroup) -> Report:
    sizes = (FIRST, task.total - FIRST)
    flats = [torch.ones(size // 4) for size in sizes] + [torch.ones(16)]
    blank = [Member(f"w{i}", "worker", f"{home.address}:1") for i, home in enumerate(task.homes)]
    given = [
        replace(member, bandwidth=payload_rate(home.rate))
        for member, home in zip(blank, task.homes, strict=True)
    ]
    probed = probe(group, blank, task.probing)
    asked = {"ring": ("ring", given), "given": ("auto", given), "probed": ("auto", probed)}
    ways: list[tuple[Way, Communicator]] = []
    for name, (sync, members) in asked.items():
        choice = choose(sync, members, sizes)
        bandwidths = tuple(member.bandwidth for member in members)
        communicator = make(choice, group, flats, members)
        ways.append((Way(name, choice, bandwidths, 0.0), communicator))
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(task.rounds):
        for (_, communicator), seen in zip(ways, times, strict=True):
            seen.append(_step(group, flats, communicator))
    return [(way, seen) for (way, _), seen in zip(ways, times, strict=True)]


def _step(group: GlooGroup, flats: Sequence[Tensor], communicator: Communicator) -> float:
    """Seconds of one synchronisation of ones; it must give the number of workers everywhere."""
    for flat in flats:
        flat.fill_(1.0)
    group.allreduce(torch.zeros(1)).wait()
    began = time.perf_counter()
    communicator.begin()
    for bucket in range(len(flats)):
        communicator.put(bucket)
    communicator.finish()
    seconds = time.perf_counter() - began
    if not all(bool((flat == group.size).all()) for flat in flats):
        raise RuntimeError("a sum is wrong")
    return seconds


def _come_first() -> None:
    """Raise this process alone: Linux weighs whole sessions against each other, so it takes one."""
    os.setsid()
    os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    group = Path("/proc/self/autogroup")
    if group.exists():
        group.write_text(str(PRIORITY))


def _run_all(tasks: Sequence[Task]) -> list[Report]:
    """Start all processes, tell them where to meet, take what each reports, and let all end."""
    pipes = [Spawn.Pipe() for _ in tasks]
    processes = [
        Spawn.Process(target=run_task, args=(task, theirs))
        for task, (_, theirs) in zip(tasks, pipes, strict=True)
    ]
    try:
        for process, (_, theirs) in zip(processes, pipes, strict=True):
            process.start()
            theirs.close()
        address = receive(pipes[0][0], DEADLINE)
        for ours, _ in pipes:
            ours.send(address)
        reports = [receive(ours, DEADLINE) for ours, _ in pipes]
        for ours, _ in pipes:
            ours.send(None)
        return reports
    finally:
        for process in processes:
            stop(process)


Spawn.set_forkserver_preload(["torch", "torch.distributed"])
