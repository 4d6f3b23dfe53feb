"""The start of a daemon: fold the journal, then reattach to the tasks that run."""

import asyncio
import time
from dataclasses import replace

import structlog

from muster.daemon.gang.events import Resumed
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.job_summaries import restored_summary
from muster.daemon.loop.live_jobs import standings
from muster.daemon.loop.loop import Daemon
from muster.daemon.loop.state import State
from muster.model.cluster import Cluster
from muster.model.pool import PoolTree
from muster.model.task import TaskId
from muster.model.view import Phase, View
from muster.store.codec import decode, encode
from muster.store.errors import UnreadableError
from muster.store.store import Store
from muster.wire.api.records import LIVE

log = structlog.get_logger()


REPORTED = 10.0
"""s for an executor to say what became of the tasks it is attached to."""
LOOK = 0.02


class ClusterChangedError(ValueError):
    """The cluster is not the one on which jobs still run."""

    def __init__(self, state: State) -> None:
        names = ", ".join(sorted(each.job.name for each in state.view.jobs.values())[:5])
        super().__init__(
            f"the cluster has changed while these jobs are active: {names}; "
            "start with the same devices, or stop the jobs first"
        )
        self.state = state
        """What the journal folds to."""


def load_state(store: Store, cluster: Cluster, pools: PoolTree, policy: str) -> State:
    """Fold the journal; an empty store starts with the cluster, pools and policy given."""
    state, seq = _latest_snapshot(store)
    if state is None:
        state = State(View(0, cluster, pools, {}), {}, policy)
        store.snapshot(0, encode(state))
        return state
    folded = state.after(entry.fact for entry in store.facts(after=seq))
    state = _moved_to(cluster, pools, folded)
    if state is not folded:
        store.snapshot(store.last_seq(), encode(state))
    return state


def _latest_snapshot(store: Store) -> tuple[State | None, int]:
    """Return the last snapshot that can be read, with its number."""
    before: int | None = None
    while (saved := store.latest(before)) is not None:
        try:
            return decode(saved.body, State), saved.seq
        except UnreadableError as problem:
            log.warning("unreadable snapshot", seq=saved.seq, problem=str(problem))
            before = saved.seq
    return None, 0


def _moved_to(cluster: Cluster, pools: PoolTree, state: State) -> State:
    """Return the state on this cluster, which may only differ while no job is live. Where nodes come
    and go, those of the journal stay, and the rest is as given."""
    known = state.view.cluster
    if known.open and cluster.open:
        renewed = _with_nodes_of(known, cluster)
        same = renewed == known
        return state if same else replace(state, view=replace(state.view, cluster=renewed))
    if known.open is cluster.open and _shape(known) == _shape(cluster):
        return state
    if state.view.jobs:
        raise ClusterChangedError(state)
    return State(View(state.view.version, cluster, pools, {}), {}, state.policy)


def _with_nodes_of(known: Cluster, cluster: Cluster) -> Cluster:
    """Return the cluster given, with the known nodes and the configuration sets they use."""
    used = {node.configuration: known.configuration_of(node) for node in known.nodes}
    return replace(cluster, nodes=known.nodes, configurations={**cluster.configurations, **used})


def _shape(cluster: Cluster) -> object:
    """Return what jobs cannot change of a cluster."""
    nodes = [(node.name, node.configuration, node.rack, node.domain) for node in cluster.nodes]
    return (dict(cluster.configurations), nodes, dict(cluster.links))


async def note_ends(daemon: Daemon) -> None:
    """Journal how tasks ended while no daemon was there; nothing is decided."""
    limit = time.monotonic() + REPORTED
    while time.monotonic() < limit and _is_unknown(daemon):
        await daemon.take_in()
        await asyncio.sleep(LOOK)


def _is_unknown(daemon: Daemon) -> bool:
    """Whether the executor has not yet said of every task that it runs or has ended."""
    sights = daemon.sights
    return any(
        number not in sights or task.task not in sights[number].running
        for number, gang in daemon.state.gangs.items()
        for task in gang.tasks
    )


def reattach(daemon: Daemon) -> None:
    """Restore the summaries of live jobs, watch their tasks, resume what was in progress."""
    records = {record.number: record for record in daemon.store.jobs(statuses=LIVE, limit=1_000_000)}
    attached: dict[TaskId, str] = {}
    for number, state in daemon.view.jobs.items():
        record = records.get(number)
        if record is not None:
            predicted = record.first_predicted_finish is not None
            predictions = daemon.store.predictions(number) if predicted else ()
            summary = restored_summary(record, predictions)
            if state.phase is Phase.WAITING and summary.predicted_finish is not None:
                summary = replace(summary, predicted_finish=None)  # as the last daemon played it
                daemon.touch(number)
            daemon.summaries[number] = summary
        gang = daemon.state.gangs.get(number)
        if gang is not None:
            daemon.post(Entry(events=[(number, Resumed())]))
            daemon.follower.tell_held(state)
            attached |= {each.task: each.slot.node for each in gang.tasks}
    daemon.live.take(standings(daemon.view.jobs, daemon.state, daemon.summaries))
    daemon.accounts.restore(daemon.store, daemon.state, daemon.clock.now())
    daemon.spans.restore(daemon.store.unended_spans(), daemon.state, daemon.clock.now())
    daemon.executor.attach(attached)
    daemon.decide_soon()
    if daemon.view.jobs:
        log.info("reattached", jobs=len(daemon.view.jobs), tasks=len(attached), fact=daemon.seq)
