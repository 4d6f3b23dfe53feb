"""Changes that may be asked about, and the present as each would make it.

A change that takes effect now is folded into the view, with the events that the daemon would fold; a
later one is an event of the worlds that are played. What the daemon would reject is rejected here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

from muster.core.cycle.sections import check_policies
from muster.core.state.admit import refuse
from muster.core.state.event_errors import EventError
from muster.core.state.evolve import evolve
from muster.foresight.play import Present
from muster.model.cluster import Cluster, Node, NodeState
from muster.model.event import Event, NodeAdded, NodeDraining, NodeEvent, PoolsSet, Reprioritised
from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.model.pool import Pool, PoolError, PoolTree
from muster.policy.registry import POLICIES, PolicyError


class ChangeError(ValueError):
    """A change that cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """Another policy decides."""

    name: str


@dataclass(frozen=True, slots=True)
class PoolChange:
    """A pool becomes this one, or is added."""

    pool: Pool


@dataclass(frozen=True, slots=True)
class NodesAdded:
    """Nodes join, each like those of a configuration set, or like a node."""

    names: tuple[str, ...]
    like: str
    """Name of a configuration set, or of a node."""
    at: float | None = None
    """s; None: now."""


@dataclass(frozen=True, slots=True)
class NodesDrained:
    """Nodes take no new tasks."""

    names: tuple[str, ...]
    at: float | None = None
    """s; None: now."""
    by: float | None = None
    """When they must be empty, s; None: whenever their jobs have ended."""


@dataclass(frozen=True, slots=True)
class SubmissionChange:
    """A job is submitted."""

    job: Job
    at: float | None = None
    """s; None: now."""
    outlook: Outlook | None = None
    """What would be believed of it; None: similar jobs tell."""


@dataclass(frozen=True, slots=True)
class PriorityChange:
    """A live job gets another priority."""

    job: int
    priority: int


Alteration = PolicyChange | PoolChange | NodesAdded | NodesDrained | SubmissionChange | PriorityChange


@dataclass(frozen=True, slots=True)
class Altered:
    """The present as changes would make it, and what they bring later."""

    present: Present
    later: tuple[NodeEvent, ...] = ()
    submissions: tuple[SubmissionChange, ...] = field(default=())
    """Each with its number and its moment."""


def altered(present: Present, changes: Iterable[Alteration]) -> Altered:
    """Make the changes together; ChangeError for the first that cannot be made."""
    asked = tuple(changes)
    nodes = [each for each in asked if isinstance(each, NodesAdded | NodesDrained)]
    pools = [each.pool for each in asked if isinstance(each, PoolChange)]
    others = [each for each in asked if not isinstance(each, NodesAdded | NodesDrained | PoolChange)]
    try:
        # Nodes that join now are there for reservations, and jobs are submitted to all of it.
        found = reduce(_with_nodes, nodes, Altered(present))
        found = reduce(_with, others, _with_pools(found, pools))
        after = found.present
        check_policies(after.view.pools, after.policy.name, before=present.view.pools)
    except (EventError, PoolError, PolicyError) as error:
        raise ChangeError(str(error)) from None
    return found


def _with_nodes(before: Altered, change: NodesAdded | NodesDrained) -> Altered:
    if isinstance(change, NodesAdded):
        return _with_events(before, _joining(before.present, change), change.at)
    return _with_events(before, _draining(before, change), change.at)


def _with(before: Altered, change: PolicyChange | SubmissionChange | PriorityChange) -> Altered:
    match change:
        case PolicyChange(name):
            return _with_policy(before, name)
        case SubmissionChange():
            return _with_submission(before, change)
        case PriorityChange():
            return _with_priority(before, change)


def _with_priority(before: Altered, change: PriorityChange) -> Altered:
    jobs, now = before.present.view.jobs, before.present.now
    if change.job not in jobs:
        raise ChangeError(f"no live job {change.job}")
    if jobs[change.job].job.priority == change.priority:
        return before
    return _folded(before, [Reprioritised(change.job, change.priority, "", now)])


def _with_policy(before: Altered, name: str) -> Altered:
    policy, present = POLICIES.find(name), before.present
    if policy.name == present.policy.name:
        return before
    # As in the daemon, a policy begins without the memory of the one before it.
    memory = replace(present.memory, policy=None)
    return replace(before, present=replace(present, policy=policy, memory=memory))


def _with_pools(before: Altered, pools: Iterable[Pool]) -> Altered:
    view = before.present.view
    tree = PoolTree({**view.pools.pools, **{pool.name: pool for pool in pools}})
    if tree.pools == view.pools.pools:
        return before
    _refuse_overbooked(tree, view.cluster)
    return _folded(before, [PoolsSet(tree, before.present.now)])


def _refuse_overbooked(tree: PoolTree, cluster: Cluster) -> None:
    problem = tree.overpromised()
    if problem:
        raise ChangeError(f"pools would {problem}")
    over = None if cluster.open else tree.overbooked(cluster.devices_by_type())
    if over is not None:
        device_type, promised, there = over
        raise ChangeError(f"pools would reserve {promised} {device_type}, but there are {there}")


def _joining(present: Present, change: NodesAdded) -> list[Event]:
    cluster = present.view.cluster
    taken = [name for name in change.names if name in cluster.index]
    if taken:
        raise ChangeError(f"there is a node {taken[0]} already")
    pattern, at = _pattern(cluster, change.like), _moment(present, change.at)
    return [NodeAdded(replace(pattern, name=name), at) for name in change.names]


def _pattern(cluster: Cluster, like: str) -> Node:
    """Return an empty node like a node, or like the last of a configuration set."""
    alike = [node for node in cluster.nodes if like in (node.configuration, node.name)]
    if not alike:
        kinds = ", ".join(dict.fromkeys(node.configuration for node in cluster.nodes))
        raise ChangeError(f"no node is like {like!r}; there are: {kinds}")
    node, kind = alike[-1], cluster.configuration_of(alike[-1])
    return replace(
        node,
        free=kind.all_devices,
        millicores=kind.millicores,
        memory=kind.memory,
        state=NodeState.UP,
        until=None,
        taken=None,
        why="",
        since=None,
    )


def _draining(before: Altered, change: NodesDrained) -> list[Event]:
    present = before.present
    at = _moment(present, change.at)
    known = {node.name for node in present.view.cluster.nodes}
    known |= {each.node.name for each in before.later if isinstance(each, NodeAdded)}
    for name in change.names:
        if name not in known:
            raise ChangeError(f"no node named {name!r}")
    if change.by is not None and change.by < at:
        raise ChangeError("nodes must be empty only after they begin to drain")
    return [NodeDraining(name, at, change.by, "what if") for name in change.names]


def _with_submission(before: Altered, change: SubmissionChange) -> Altered:
    view, job = before.present.view, change.job
    if job.full_name in view.names:
        raise ChangeError(f"a live job is called {job.full_name!r} already; choose another name")
    if any(each.job.full_name == job.full_name for each in before.submissions):
        raise ChangeError(f"{job.full_name!r} is submitted twice; choose another name for one of them")
    whole = _eventually(before)
    refusal = refuse(job, whole, view.pools)
    if refusal is not None:
        near = refusal.nearest
        hint = f" (nearest that could: {near.field}: {near.value})" if near else ""
        raise ChangeError(f"job {job.name!r} can never run: {refusal.why}{hint}")
    number = max(view.jobs, default=0) + len(before.submissions) + 1
    ready = replace(job, number=number, after=())
    at = _moment(before.present, change.at)
    return replace(before, submissions=(*before.submissions, replace(change, job=ready, at=at)))


def _eventually(before: Altered) -> Cluster:
    """Return the cluster with the nodes that join later."""
    joining = [each for each in before.later if isinstance(each, NodeAdded)]
    return evolve(before.present.view, joining).cluster if joining else before.present.view.cluster


def _with_events(before: Altered, events: list[Event], at: float | None) -> Altered:
    if at is None or at <= before.present.now:
        return _folded(before, events)
    return replace(before, later=(*before.later, *events))  # type: ignore[arg-type]


def _folded(before: Altered, events: list[Event]) -> Altered:
    view = before.present.view
    after = evolve(view, events)
    # What no event changes, `evolve` leaves to whoever informs the next cycle.
    after = replace(after, shapes=view.shapes, knowledge=view.knowledge, uplinks=view.uplinks)
    return replace(before, present=replace(before.present, view=after))


def _moment(present: Present, at: float | None) -> float:
    return present.now if at is None else max(at, present.now)
