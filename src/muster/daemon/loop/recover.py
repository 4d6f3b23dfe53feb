"""The start of a daemon: what the journal says, what the executor says, and going on from there."""

import structlog

from muster.daemon.gang.events import Resumed
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.job_summaries import card_of
from muster.daemon.loop.loop import Daemon
from muster.daemon.loop.state import State
from muster.model.cluster import Cluster
from muster.model.pool import PoolTree
from muster.model.view import View
from muster.store.codec import decode, encode
from muster.store.errors import UnreadableError
from muster.store.store import Store
from muster.wire.records import LIVE

log = structlog.get_logger()


class ClusterChangedError(ValueError):
    """The cluster is another than the one on which jobs still live."""


def load_state(store: Store, cluster: Cluster, pools: PoolTree, policy: str) -> State:
    """The fold of the journal; a store without one begins with the cluster, pools and policy given."""
    state, seq = _snapshot(store)
    if state is None:
        state = State(View(0, cluster, pools, {}), {}, policy)
        store.snapshot(0, encode(state))
        return state
    folded = state.after(entry.fact for entry in store.facts(after=seq))
    state = _on(cluster, pools, folded)
    if state is not folded:
        store.snapshot(store.last_seq(), encode(state))
    return state


def _snapshot(store: Store) -> tuple[State | None, int]:
    """The last snapshot that can be read."""
    before: int | None = None
    while (saved := store.latest(before)) is not None:
        try:
            return decode(saved.body, State), saved.seq
        except UnreadableError as problem:
            log.warning("a snapshot cannot be read", seq=saved.seq, problem=str(problem))
            before = saved.seq
    return None, 0


def _on(cluster: Cluster, pools: PoolTree, state: State) -> State:
    """The state on the cluster as it is today."""
    if _shape(state.view.cluster) == _shape(cluster):
        return state
    if state.view.jobs:
        names = ", ".join(sorted(state.view.names)[:5])
        raise ClusterChangedError(
            f"the cluster is not the one on which these jobs live: {names}; "
            "start with the same devices, or stop them first"
        )
    return State(View(state.view.version, cluster, pools, {}), {}, state.policy)


def _shape(cluster: Cluster) -> object:
    """What of a cluster does not change by use."""
    nodes = [(node.name, node.configuration, node.rack, node.domain) for node in cluster.nodes]
    return (dict(cluster.configurations), nodes, dict(cluster.links))


def take_up(daemon: Daemon) -> None:
    """Know the live jobs again, watch their tasks, and go on with what was under way."""
    records = {record.number: record for record in daemon.store.jobs(statuses=LIVE, limit=1_000_000)}
    attached = []
    for number, state in daemon.view.jobs.items():
        record = records.get(number)
        if record is not None:
            predicted = record.first_predicted_finish is not None
            predictions = daemon.store.predictions(number) if predicted else ()
            daemon.cards[number] = card_of(record, predictions)
        gang = daemon.state.gangs.get(number)
        if gang is None:
            continue
        daemon.post(Entry(events=[(number, Resumed())]))
        daemon.follower.tell_held(daemon, state, daemon.clock.now())
        attached += [each.task for each in gang.tasks]
    daemon.executor.attach(attached)
    daemon.ask_again()
    if daemon.view.jobs:
        log.info("went on", jobs=len(daemon.view.jobs), tasks=len(attached), fact=daemon.seq)
