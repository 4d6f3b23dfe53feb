"""What must hold of the state after any history, sensible or not."""

from collections.abc import Callable
from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from muster.core.state.event_errors import EventError
from muster.core.state.evolve import evolve
from muster.core.state.lifecycle import LifecycleError
from muster.model.cluster import NodeState
from muster.model.event import (
    Cancelled,
    Checkpointed,
    Ended,
    Event,
    MigrateBegun,
    Migrated,
    NodeAdded,
    NodeDraining,
    NodeLeft,
    NodeLost,
    NodeReturned,
    Outcome,
    PreemptBegun,
    Preempted,
    Reshaped,
    ResizeBegun,
    Resized,
    StartBegun,
    Started,
    Submitted,
    TasksLost,
)
from muster.model.job import Need, Role
from muster.model.placement import Placement, Slot
from muster.model.view import JobState, Phase, View
from tests.builders import GB, cluster, job, node_set, slot, view
from tests.numbers import number

EVERY = settings(max_examples=100, deadline=None, derandomize=True, database=None)
NODES = 3
SMALL = node_set(devices=4, sockets=2, switches=4, cores=6, memory=6 * GB)
# Kinds above 18 take the job one phase on, so that histories get somewhere.
STEPS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(0, 2**16 - 1)),
    min_size=40,
    max_size=60,
)
Step = tuple[int, int, int]


def fitting(state: View, salt: int) -> Placement:
    """Up to three workers, each on one or two devices that are free, and sometimes a server."""
    slots: list[Slot] = []
    free = {node.name: node.free for node in state.cluster.nodes}
    names = sorted(free)
    assume(names)  # all nodes may have left
    for index in range(1 + salt % 3):
        name = names[(salt // 3 + index) % len(names)]
        low = free[name] & -free[name]
        bits = low | (low << 1 & free[name] if salt & 64 else 0)
        slots.append(slot(name, bits, index, need=Need(bits.bit_count(), 1_000, GB)))
        free[name] &= ~bits
    if salt & 128:
        name = names[salt % len(names)]
        slots.append(slot(name, 0, role=Role.SERVER, need=Need(0, 1_000, GB)))
    return Placement(tuple(slots))


def wild(salt: int) -> Placement:
    """One worker on any bits at all."""
    return Placement((slot(f"n{salt % 4}", salt // 4 % 32),))


def resized(state: View, old: JobState, salt: int) -> Placement:
    """Some of the present slots, and others beside."""
    kept = old.placement.slots[: salt % 3] if old.placement else ()
    more = fitting(state, salt).slots
    taken = {(place.role, place.index) for place in kept}
    return Placement((*kept, *(s for s in more if (s.role, s.index) not in taken)))


def made(state: View, step: Step, at: float) -> Event:
    """The event that a step means in this state; most fit it, some do not."""
    kind, who, salt = step
    name = f"j{who}"
    node = f"n{salt % NODES}"
    old = state.jobs.get(number(name))
    if kind == 0 or old is None:
        return Submitted(job(name, 1 + salt % 3, gang=1 + salt % 2), at)
    generation = old.generation + (salt % 7 == 0) - (salt % 11 == 0)
    about_job: list[Callable[[], Event]] = [
        lambda: StartBegun(number(name), generation + 1, fitting(state, salt), at),
        lambda: StartBegun(number(name), generation + 1, wild(salt), at),
        lambda: Started(number(name), generation, at),
        lambda: ResizeBegun(number(name), generation + 1, resized(state, old, salt), at),
        lambda: Resized(number(name), generation, at),
        lambda: MigrateBegun(number(name), generation + 1, fitting(state, salt), at),
        lambda: Migrated(number(name), generation, at),
        lambda: PreemptBegun(number(name), generation, at),
        lambda: Preempted(number(name), generation, at),
        lambda: Checkpointed(number(name), generation, at),
        lambda: Ended(number(name), generation, Outcome.SUCCEEDED, at),
        lambda: TasksLost(number(name), generation + 1, Placement(old.held()[: salt % 3]), at),
        lambda: Reshaped(number(name), job(name, 1 + salt % 4, gang=1, most=4).roles, at),
    ]
    about_nodes: list[Callable[[], Event]] = [
        lambda: NodeLost(node, at),
        lambda: NodeReturned(node, at),
        lambda: NodeDraining(node, at),
        lambda: NodeAdded(cluster(NODES + 1, SMALL).nodes[salt % (NODES + 1)], at),
        lambda: NodeLeft(node, at),
    ]
    following = {
        Phase.WAITING: about_job[0],
        Phase.STARTING: about_job[2],
        Phase.RUNNING: about_job[3 + salt % 2 * 2],
        Phase.RESIZING: about_job[4],
        Phase.MIGRATING: about_job[6],
        Phase.PREEMPTING: about_job[8],
    }
    choices = [*about_job, *about_nodes]
    return choices[kind - 1]() if kind <= len(choices) else following[old.phase]()


def history(steps: list[Step]) -> list[View]:
    """The views of a history; a refused event leaves the view as it is."""
    return [state for state, _ in told(steps)]


def told(steps: list[Step]) -> list[tuple[View, Event | None]]:
    """The views of a history, each with the event that led to it."""
    found: list[tuple[View, Event | None]] = [(view(cluster(NODES, SMALL)), None)]
    for at, step in enumerate(steps):
        event = made(found[-1][0], step, float(at))
        try:
            found.append((evolve(found[-1][0], [event]), event))
        except (EventError, LifecycleError):
            continue
    return found


@EVERY
@given(STEPS)
def test_a_journal_folds_to_the_same_state_in_one_go(steps: list[Step]) -> None:
    found = told(steps)
    events = [event for _, event in found if event is not None]
    assert evolve(found[0][0], events) == found[-1][0]


def held_on(state: View, node: str) -> list[Slot]:
    return [place for s in state.jobs.values() for place in s.held() if place.node == node]


@EVERY
@given(STEPS)
def test_each_device_is_free_or_held_by_exactly_one_task(steps: list[Step]) -> None:
    for state in history(steps):
        for node in state.cluster.nodes:
            bits = [place.bits for place in held_on(state, node.name)]
            if node.state is NodeState.LOST:
                assert (node.free, bits) == (0, [])
            else:
                assert node.free + sum(bits) == SMALL.all_devices
                assert node.free | sum(bits) == SMALL.all_devices
                assert sum(b.bit_count() for b in bits) + node.free.bit_count() == SMALL.devices


@EVERY
@given(STEPS)
def test_cores_and_memory_are_free_or_held(steps: list[Step]) -> None:
    for state in history(steps):
        for node in state.cluster.nodes:
            if node.state is not NodeState.LOST:
                needs = [place.need for place in held_on(state, node.name)]
                assert node.millicores >= 0
                assert node.memory >= 0
                assert node.millicores + sum(n.millicores for n in needs) == SMALL.millicores
                assert node.memory + sum(n.memory for n in needs) == SMALL.memory


@EVERY
@given(STEPS)
def test_a_job_holds_devices_exactly_when_it_does_not_wait(steps: list[Step]) -> None:
    for state in history(steps):
        for s in state.jobs.values():
            assert bool(s.held()) == (s.phase is not Phase.WAITING)
            changing = s.phase in (Phase.RESIZING, Phase.MIGRATING)
            # A change may be cut short by its user: what it would have led to is held until the end.
            assert (s.target is not None) == changing or s.phase is Phase.PREEMPTING
            assert (s.started is not None) == (s.phase is not Phase.WAITING)


@EVERY
@given(STEPS)
def test_versions_and_generations_only_rise(steps: list[Step]) -> None:
    views = history(steps)
    for before, after in pairwise(views):
        assert after.version == before.version + 1
        for name in before.jobs.keys() & after.jobs.keys():
            assert after.jobs[name].generation >= before.jobs[name].generation
            assert after.jobs[name].submitted == before.jobs[name].submitted


@EVERY
@given(STEPS)
def test_when_all_have_ended_and_all_nodes_are_back_everything_is_free(steps: list[Step]) -> None:
    last = history(steps)[-1]
    ends: list[Event] = [Cancelled(name, 99.0) for name in last.jobs]
    returns: list[Event] = [NodeReturned(node.name, 99.0) for node in last.cluster.nodes]
    after = evolve(last, [*ends, *returns])
    assert after.cluster == last.cluster.emptied()
