"""A store with a long past: the facts, lists and snapshots that a daemon would have left behind."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from muster.core.state.lifecycle import BORN
from muster.daemon.loop.job_summaries import fold_summaries, record_of
from muster.daemon.loop.loop import Pace
from muster.daemon.loop.recover import load_state
from muster.daemon.loop.state import State
from muster.executors.discover import discover
from muster.files.job.job_file import job_of
from muster.model.cluster import Cluster
from muster.model.decision import Kind
from muster.model.event import Ended, Outcome, StartBegun, Started, Submitted
from muster.model.job import Job, Role
from muster.model.placement import Placement, Slot
from muster.model.pool import PoolTree, single_pool
from muster.model.reason import Code
from muster.model.task import Decided, Fact, TaskEnded, TaskExited, TaskId, TaskOrdered
from muster.model.view import JobState
from muster.store.batch import Batch
from muster.store.codec import encode
from muster.store.store import Store, open_store
from support.load_daemon import TOPOLOGY

POLICY = "muster"
EPOCH = 1.7e9
"""When it all began; a second for each job."""
TOGETHER = 40
"""Times that the cluster was filled and emptied, written at once: a few thousand facts."""


def grounds() -> tuple[Cluster, PoolTree]:
    """What the benchmarks' daemons run on."""
    cluster = discover(None, topology=TOPOLOGY)
    return cluster, single_pool(cluster.devices_by_type())


def load(store: Store) -> State:
    """The fold, as a daemon makes it when it begins."""
    return load_state(store, *grounds(), POLICY)


class Past:
    """Writes a history, batch by batch, with snapshots as often as a daemon makes them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._state = load(store)
        self._number = store.highest()
        self._snapshot = Pace().snapshot
        self.seq = store.last_seq()
        self.unsaved = 0

    def submit(self, count: int, workers: int) -> None:
        """Jobs that wait."""
        facts: list[Fact] = []
        for _ in range(count):
            job = self._job(workers)
            at = EPOCH + job.number
            why = "its gang takes 8 devices, 0 are free"
            facts.append(Submitted(job, at))
            facts.append(Decided(job.number, Kind.WAIT, Code.WAITING_DEVICES, why, at + 0.02))
        self._write(facts)

    def train(self, rounds: int) -> None:
        """Fill the cluster with small jobs that begin and end, repeatedly."""
        nodes = self._state.view.cluster.nodes
        places = [(node.name, 1 << bit) for node in nodes for bit in range(node.free.bit_count())]
        self._write([fact for _ in range(rounds) for place in places for fact in self._life(*place)])

    def _job(self, workers: int) -> Job:
        self._number += 1
        name, user = f"past-{self._number}", f"user{self._number % 20}"
        return replace(_asked(workers), name=name, user=user, number=self._number)

    def _life(self, node: str, bit: int) -> Iterable[Fact]:
        """A job of one task, from its submission to its end."""
        job = self._job(1)
        number, at = job.number, EPOCH + job.number
        slot = Slot(Role.WORKER, 0, node, bit, job.roles[0].need)
        task = TaskId(job.number, 1, Role.WORKER, 0)
        yield Submitted(job, at)
        yield StartBegun(number, 1, Placement((slot,)), at + 0.02)
        yield Decided(number, Kind.START, Code.STARTED, "the gang fits", at + 0.02)
        yield TaskOrdered(number, task, slot, at + 0.03)
        yield Started(number, 1, at + 0.1)
        yield TaskEnded(number, TaskExited(task, at + 0.8, code=0), at + 0.9)
        yield Ended(number, 1, Outcome.SUCCEEDED, at + 0.9)

    def _write(self, facts: list[Fact]) -> None:
        state = self._state.after(facts)
        summaries = fold_summaries({}, facts)
        born = [fact for fact in facts if isinstance(fact, Submitted)]
        records = tuple(
            record_of(summaries[fact.job.number], JobState(fact.job, BORN, fact.at), None, None)
            for fact in born
        )
        _, self.seq = self._store.write(Batch(tuple(facts), records))
        self._state = state
        self.unsaved += len(facts)
        if self.unsaved >= self._snapshot:
            self._store.snapshot(self.seq, encode(state))
            self.unsaved = 0


@cache
def _asked(workers: int) -> Job:
    written = {"command": ["python", "train.py"], "roles": {"worker": {"count": workers}}}
    return job_of(written)


def write_past(path: str, facts: int, waiting: int) -> tuple[int, int]:
    """Fill a store; how many facts it has, and how many of them since the last snapshot."""
    store = open_store(path)
    try:
        past = Past(store)
        past.submit(waiting, workers=8)
        begin = past.seq
        past.train(TOGETHER)
        written = past.seq - begin
        # To the moment before a snapshot: that is when a start has most to fold.
        while past.seq < facts or past.unsaved + written < Pace().snapshot:
            past.train(TOGETHER)
        return past.seq, past.unsaved
    finally:
        store.close()
