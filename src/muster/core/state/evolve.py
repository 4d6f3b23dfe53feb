"""The only way to change state: fold events into a view.

A batch is applied to a draft, one copy of the nodes and the jobs; an event that is rejected raises and
the draft is dropped, so nothing is ever half applied.

Fencing: `generation` counts a job's changes of membership. What begins a change must name the next
one, what completes it the current one. Completions of older generations are stale and ignored, as are
checkpoints and ends of a run that was stopped meanwhile.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from muster.core.state.event_errors import (
    EventError,
    NameTakenError,
    OverbookedError,
    StaleEventError,
    UnknownNameError,
    is_stale,
)
from muster.core.state.lifecycle import BORN, advance
from muster.core.state.node_room import (
    contents,
    described,
    due,
    lacking,
    nothing_free,
    renewed_node,
    turned,
    with_taken,
)
from muster.model.cluster import Node, NodeState
from muster.model.event import (
    Cancelled,
    Checkpointed,
    DependencyMet,
    Ended,
    EndingChanged,
    Event,
    JobHeld,
    JobReleased,
    MigrateBegun,
    Migrated,
    NodeAdded,
    NodeDraining,
    NodeLeft,
    NodeLost,
    NodeReturned,
    PoolsSet,
    PreemptBegun,
    Preempted,
    Replanned,
    Reprioritised,
    Requeued,
    Reshaped,
    ResizeBegun,
    Resized,
    Skipped,
    StartBegun,
    Started,
    Submitted,
    TasksLost,
)
from muster.model.placement import Placement, Slot
from muster.model.renew import renewer
from muster.model.topology import ConfigurationSet
from muster.model.view import JobState, Phase, View

_renewed = renewer(JobState)


def evolve(view: View, events: Iterable[Event]) -> View:
    """Return the view after these events, in order; each adds 1 to the version."""
    draft = _Draft(view)
    for event in events:
        _HANDLERS[type(event)](draft, event)
        draft.version += 1
    return draft.view()


class _Draft:
    """A view being changed: nodes and jobs, copied once per batch."""

    __slots__ = (
        "_names",
        "_recount",
        "_regrouped",
        "_tenants",
        "_touched",
        "_view",
        "configurations",
        "index",
        "jobs",
        "nodes",
        "pools",
        "version",
    )

    def __init__(self, view: View) -> None:
        self._view = view
        self._touched = False
        self._recount = False
        """Whether devices have come or gone with a node."""
        self._regrouped = False
        self.version = view.version
        self.nodes = list(view.cluster.nodes)
        self.index: Mapping[str, int] = view.cluster.index
        self.configurations = view.cluster.configurations
        self.jobs = dict(view.jobs)
        self._names: dict[str, int] | None = None
        """Copied when the first job is added or removed."""
        self._tenants: defaultdict[str, dict[int, None]] | None = None
        self.pools = view.pools

    def view(self) -> View:
        """Return the draft as a view."""
        cluster = self._view.cluster
        if self._regrouped:
            cluster = replace(cluster, nodes=tuple(self.nodes), configurations=self.configurations)
        elif self._touched:
            cluster = cluster.with_nodes(tuple(self.nodes), recount=self._recount)
        names = self._view.names if self._names is None else self._names
        view = self._view
        state = (self.version, cluster, self.pools, self.jobs)
        return View(*state, view.outlooks, names, slowdowns=view.slowdowns)

    def job(self, number: int) -> JobState:
        """Return the live job of this number."""
        try:
            return self.jobs[number]
        except KeyError:
            raise UnknownNameError(f"no live job {number}") from None

    @property
    def names(self) -> dict[str, int]:
        """The numbers of live jobs by full name."""
        if self._names is None:
            self._names = dict(self._view.names)
        return self._names

    def submit(self, state: JobState) -> None:
        """Add a live job; its number must be free, and its name among its user's jobs."""
        if state.number in self.jobs:
            raise NameTakenError(f"job {state.number} is already live")
        if state.job.full_name in self.names:
            raise NameTakenError(f"a live job is already called {state.job.full_name!r}")
        self.jobs[state.number] = state
        self.names[state.job.full_name] = state.number

    def end(self, state: JobState) -> None:
        """Remove the job and free its devices and name."""
        self.free(state.held())
        del self.jobs[state.number], self.names[state.job.full_name]

    def node(self, name: str) -> Node:
        """Return the node of this name."""
        try:
            return self.nodes[self.index[name]]
        except KeyError:
            raise UnknownNameError(f"no such node: {name!r}") from None

    def put(self, node: Node) -> None:
        """Replace the node of this name."""
        place = self.index[node.name]
        before, lost = self.nodes[place], NodeState.LOST
        self._recount |= (before.state is lost) != (node.state is lost)
        self.nodes[place] = node
        self._touched = True

    def add(self, node: Node) -> None:
        """Append a node, or replace the one of its name, whose place may change."""
        if node.name in self.index:
            self.nodes[self.index[node.name]] = node
        else:
            self.index = {**self.index, node.name: len(self.nodes)}
            self.nodes.append(node)
        self._regrouped = True

    def remove(self, name: str) -> None:
        """Remove the node of this name."""
        self.nodes = [node for node in self.nodes if node.name != name]
        self.index = {node.name: place for place, node in enumerate(self.nodes)}
        self._regrouped = True

    def configure(self, name: str, kind: ConfigurationSet) -> None:
        """Add or replace the configuration set of a node; its other nodes keep what they have."""
        known = self.configurations.get(kind.name)
        if known == kind:
            return
        if known is not None and contents(known) != contents(kind):
            users = [each.name for each in self.nodes if each.configuration == kind.name]
            if (others := [each for each in users if each != name]) or self.tenant(name) is not None:
                raise EventError(
                    f"node {name!r}: configuration set {kind.name!r} is {described(known)} "
                    f"on {', '.join(others[:3] or [name])}, not {described(kind)}"
                )
        self.configurations = {**self.configurations, kind.name: kind}
        self._regrouped = True

    def tenant(self, name: str) -> int | None:
        """Return a job with tasks on the node; None: it has none."""
        return next((state.number for state in self.tenants(name)), None)

    def tenants(self, name: str) -> list[JobState]:
        """Return the jobs with tasks on the node. Found once per batch for all nodes, since many may
        be lost at once; what is taken later is added."""
        if self._tenants is None:
            self._tenants = defaultdict(dict)
            for state in self.jobs.values():
                for slot in state.held():
                    self._tenants[slot.node][state.number] = None
        there = (self.jobs[number] for number in self._tenants[name] if number in self.jobs)
        return [state for state in there if any(slot.node == name for slot in state.held())]

    def take(self, job: int, slots: Iterable[Slot]) -> None:
        """Take free slots; raise if a node has no room."""
        for slot in slots:
            node = self.node(slot.node)
            lacks = lacking(node, slot)
            if lacks:
                raise OverbookedError(job, slot, lacks)
            self.put(with_taken(node, slot))
            if self._tenants is not None:
                self._tenants[slot.node][job] = None

    def free(self, slots: Iterable[Slot]) -> None:
        """Free slots. None is on a lost node: nothing is held there."""
        for slot in slots:
            node = self.node(slot.node)
            self.put(
                renewed_node(
                    node,
                    free=node.free | slot.bits,
                    millicores=node.millicores + slot.need.millicores,
                    memory=node.memory + slot.need.memory,
                )
            )

    def whole(self, node: Node) -> Node:
        """Return the node with everything free."""
        kinds = self.configurations
        if node.configuration not in kinds:
            raise UnknownNameError(
                f"node {node.name!r}: no such configuration set: {node.configuration!r}"
            )
        kind = kinds[node.configuration]
        return replace(node, free=kind.all_devices, millicores=kind.millicores, memory=kind.memory)


def _submitted(draft: _Draft, event: Submitted) -> None:
    state = JobState(event.job, BORN, submitted=event.at)
    jobs = (each.number for each in state.awaited if not each.sweep)
    gone = [number for number in jobs if number not in draft.jobs]
    if gone:
        raise UnknownNameError(f"job {state.number} comes after job {gone[0]}, which is not live")
    draft.submit(state)


def _begun(draft: _Draft, event: StartBegun | ResizeBegun | MigrateBegun) -> JobState:
    """Take the slots the job does not hold yet, and return it in the new generation."""
    state = draft.job(event.job)
    _expect(event.job, event.generation, state.generation + 1)
    phase = advance(state.phase, type(event))
    _reject_duplicates(event.job, event.placement)
    held = set(state.held())
    draft.take(event.job, (slot for slot in event.placement.slots if slot not in held))
    begun = _renewed(state, phase=phase, generation=event.generation, batch=event.batch)
    return _renewed(begun, plan=event.plan, planned=event.at if event.plan else 0.0)


def _start_begun(draft: _Draft, event: StartBegun) -> None:
    draft.jobs[event.job] = _renewed(
        _begun(draft, event),
        run=event.generation,
        placement=event.placement,
        started=event.at,
        since=event.at,
        not_before=0.0,
    )


def _change_begun(draft: _Draft, event: ResizeBegun | MigrateBegun) -> None:
    draft.jobs[event.job] = _renewed(_begun(draft, event), target=event.placement)


def _preempt_begun(draft: _Draft, event: PreemptBegun) -> None:
    state = draft.job(event.job)
    _expect(event.job, event.generation, state.generation)
    draft.jobs[event.job] = _renewed(state, phase=advance(state.phase, PreemptBegun))


def _started(draft: _Draft, event: Started) -> None:
    state = draft.job(event.job)
    if not is_stale(state, event.generation, state.generation):
        draft.jobs[event.job] = _renewed(state, phase=advance(state.phase, Started))


def _changed(draft: _Draft, event: Resized | Migrated) -> None:
    state = draft.job(event.job)
    if is_stale(state, event.generation, state.generation):
        return
    phase = advance(state.phase, type(event))
    kept = set(state.target.slots) if state.target else set()
    draft.free(slot for slot in state.held() if slot not in kept)
    draft.jobs[event.job] = _renewed(
        _counted(state, event.at), phase=phase, placement=state.target, target=None
    )


def _preempted(draft: _Draft, event: Preempted) -> None:
    state = draft.job(event.job)
    if is_stale(state, event.generation, state.generation):
        return
    phase = advance(state.phase, Preempted)
    draft.free(state.held())
    draft.jobs[event.job] = _idle(state, phase, event.at)


def _requeued(draft: _Draft, event: Requeued) -> None:
    state = draft.job(event.job)
    if is_stale(state, event.generation, state.generation):
        return
    phase = advance(state.phase, Requeued)
    draft.free(state.held())
    idle = _idle(state, phase, event.at)
    draft.jobs[event.job] = _renewed(idle, not_before=event.not_before)


def _held(draft: _Draft, event: JobHeld) -> None:
    state = draft.job(event.job)
    advance(state.phase, JobHeld)
    draft.jobs[event.job] = _renewed(state, held_by=event.by)


def _released(draft: _Draft, event: JobReleased) -> None:
    state = draft.job(event.job)
    advance(state.phase, JobReleased)
    draft.jobs[event.job] = _renewed(state, held_by="")


def _reprioritised(draft: _Draft, event: Reprioritised) -> None:
    state = draft.job(event.job)
    advance(state.phase, Reprioritised)
    draft.jobs[event.job] = _renewed(state, job=replace(state.job, priority=event.priority))


def _ending_changed(draft: _Draft, event: EndingChanged) -> None:
    state = draft.job(event.job)
    advance(state.phase, EndingChanged)
    program = replace(state.job.program, until=event.until, until_set=event.at)
    draft.jobs[event.job] = _renewed(state, job=replace(state.job, program=program))


def _replanned(draft: _Draft, event: Replanned) -> None:
    state = draft.job(event.job)
    _expect(event.job, event.generation, state.generation)
    phase = advance(state.phase, Replanned)
    draft.jobs[event.job] = _renewed(state, phase=phase, plan=event.plan, planned=event.at)


def _checkpointed(draft: _Draft, event: Checkpointed) -> None:
    state = draft.job(event.job)
    if is_stale(state, event.generation, state.run):
        return
    phase = advance(state.phase, Checkpointed)
    draft.jobs[event.job] = _renewed(state, phase=phase, checkpointed=event.at)


def _tasks_lost(draft: _Draft, event: TasksLost) -> None:
    state = draft.job(event.job)
    _expect(event.job, event.generation, state.generation + 1)
    phase = advance(state.phase, TasksLost)
    kept = set(event.placement.slots)
    if not kept < set(state.held()) or not _gang_whole(state, event.placement):
        raise EventError(
            f"job {event.job}: the tasks left must be a part of those it had, and a whole gang"
        )
    draft.free(slot for slot in state.held() if slot not in kept)
    left = _renewed(_counted(state, event.at), plan=None, generation=event.generation)
    draft.jobs[event.job] = _renewed(left, phase=phase, placement=event.placement)


def _reshaped(draft: _Draft, event: Reshaped) -> None:
    state = draft.job(event.job)
    if [spec.role for spec in event.roles] != [spec.role for spec in state.job.roles]:
        raise EventError(f"job {event.job}: roles cannot change")
    phase = advance(state.phase, Reshaped)
    job = replace(state.job, roles=event.roles)
    draft.jobs[event.job] = _renewed(state, phase=phase, job=job, reshaped=True)


def _ended(draft: _Draft, event: Ended) -> None:
    state = draft.job(event.job)
    if not is_stale(state, event.generation, state.run):
        advance(state.phase, Ended)
        draft.end(state)


def _cancelled(draft: _Draft, event: Cancelled) -> None:
    state = draft.job(event.job)
    advance(state.phase, Cancelled)
    draft.end(state)


def _dependency_met(draft: _Draft, event: DependencyMet) -> None:
    state = draft.job(event.job)
    advance(state.phase, DependencyMet)
    after = (replace(each, met=each.met or each.number == event.parent) for each in state.job.after)
    draft.jobs[event.job] = _renewed(state, job=replace(state.job, after=tuple(after)))


def _skipped(draft: _Draft, event: Skipped) -> None:
    state = draft.job(event.job)
    advance(state.phase, Skipped)
    draft.end(state)


def _node_added(draft: _Draft, event: NodeAdded) -> None:
    if event.configuration is not None:
        draft.configure(event.node.name, event.configuration)
    node = draft.whole(replace(event.node, since=event.at))
    if node.state is NodeState.LOST:
        node = nothing_free(node)
    if node.name in draft.index:
        node = _described_again(draft, draft.node(node.name), node)
    draft.add(node)


def _described_again(draft: _Draft, known: Node, node: Node) -> Node:
    """Return a node of the cluster as its agent now describes it. A draining node stays so."""
    tenant = draft.tenant(node.name)
    if tenant is None:
        draining = known.state is NodeState.DRAINING and node.state is NodeState.UP
        kept = replace(node, until=known.until, why=known.why, since=known.since, taken=known.taken)
        return replace(kept, state=known.state) if draining else node
    if node.configuration != known.configuration:
        raise EventError(
            f"node {node.name!r} has tasks of job {tenant} on its devices ({known.configuration}); "
            f"it cannot become {node.configuration!r} before they have ended"
        )
    described = {name: getattr(node, name) for name in ("rack", "domain", "offer")}
    return replace(known, **described)


def _node_left(draft: _Draft, event: NodeLeft) -> None:
    draft.node(event.node)
    if (tenant := draft.tenant(event.node)) is not None:
        raise EventError(f"node {event.node!r} has tasks of job {tenant}: it is lost, or it stays")
    draft.remove(event.node)


def _node_lost(draft: _Draft, event: NodeLost) -> None:
    node = draft.node(event.node)
    node = turned(node, NodeState.LOST, event.at)
    draft.put(nothing_free(replace(node, until=None, why=event.why, taken=None)))
    for state in draft.tenants(event.node):
        draft.jobs[state.number] = _after_loss(draft, state, event)


def _node_returned(draft: _Draft, event: NodeReturned) -> None:
    node = turned(draft.node(event.node), NodeState.UP, event.at)
    node = draft.whole(replace(node, until=None, why="", taken=None))
    for state in draft.tenants(event.node):
        for slot in state.held():
            if slot.node == event.node:
                node = with_taken(node, slot)
    draft.put(node)


def _node_draining(draft: _Draft, event: NodeDraining) -> None:
    node = draft.node(event.node)
    # A lost node has nothing to drain and must stay lost.
    if node.state is not NodeState.LOST:
        draft.put(turned(due(node, event), NodeState.DRAINING, event.at))


def _pools_set(draft: _Draft, event: PoolsSet) -> None:
    leaves = set(event.pools.leaves())
    for state in draft.jobs.values():
        if state.job.pool not in leaves:
            raise EventError(
                f"job {state.number} ({state.job.name}) is in pool {state.job.pool!r}, "
                "which would not take jobs"
            )
    draft.pools = event.pools


def _after_loss(draft: _Draft, state: JobState, event: NodeLost) -> JobState:
    """Return the job without its tasks there if a whole gang is left, else back in the queue.

    A change goes on towards what is left of its target, or back if that is no gang any more.
    """
    left = Placement(tuple(slot for slot in state.held() if slot.node != event.node))
    here, there = _without(state.placement, event.node), _without(state.target, event.node)
    whole = next((each for each in (there, here) if each and _gang_whole(state, each)), None)
    if whole is None or state.phase is Phase.STARTING:  # one that starts has no work to lose
        phase = advance(state.phase, NodeLost)
        draft.free(left.slots)
        return _renewed(_idle(state, phase, event.at), generation=state.generation + 1)
    state = _renewed(_counted(state, event.at), generation=state.generation + 1, plan=None)
    if there is None:
        return _renewed(state, placement=here)
    # What it held for a target that is given up stays its own until the tasks there are gone.
    return _renewed(state, placement=here if whole is there else left, target=whole)


def _without(placement: Placement | None, node: str) -> Placement | None:
    """Return a placement without what is on a node."""
    if placement is None:
        return None
    return Placement(tuple(slot for slot in placement.slots if slot.node != node))


def _gang_whole(state: JobState, left: Placement) -> bool:
    return bool(left.slots) and all(left.count(spec.role) >= spec.gang for spec in state.job.roles)


def _counted(state: JobState, at: float) -> JobState:
    """Return the job with the service of its current devices counted up to now."""
    return _renewed(state, served=state.attained(at), since=at)


def _idle(state: JobState, phase: Phase, at: float) -> JobState:
    """Return the job without tasks. It keeps `submitted`, and so its place in the queue."""
    return _renewed(
        state,
        served=state.attained(at),
        since=None,
        batch=None,
        plan=None,
        phase=phase,
        run=state.generation + 1,
        placement=None,
        target=None,
        started=None,
        checkpointed=None,
    )


def _reject_duplicates(job: int, placement: Placement) -> None:
    """Reject a task with two slots; without devices they would not clash, but count once."""
    if len({(slot.role, slot.index) for slot in placement.slots}) < len(placement.slots):
        raise EventError(f"job {job}: a task has two slots in one placement")


def _expect(job: int, named: int, expected: int) -> None:
    if named != expected:
        raise StaleEventError(job, named, expected)


# Each handler takes its own type of event, which a dict by type cannot express.
_HANDLERS: dict[type[Event], Callable[[_Draft, Any], None]] = {
    Submitted: _submitted,
    StartBegun: _start_begun,
    Started: _started,
    ResizeBegun: _change_begun,
    Resized: _changed,
    MigrateBegun: _change_begun,
    Migrated: _changed,
    PreemptBegun: _preempt_begun,
    Preempted: _preempted,
    Requeued: _requeued,
    JobHeld: _held,
    JobReleased: _released,
    Reprioritised: _reprioritised,
    EndingChanged: _ending_changed,
    Replanned: _replanned,
    Checkpointed: _checkpointed,
    TasksLost: _tasks_lost,
    Reshaped: _reshaped,
    Ended: _ended,
    Cancelled: _cancelled,
    DependencyMet: _dependency_met,
    Skipped: _skipped,
    NodeAdded: _node_added,
    NodeLost: _node_lost,
    NodeReturned: _node_returned,
    NodeDraining: _node_draining,
    NodeLeft: _node_left,
    PoolsSet: _pools_set,
}
