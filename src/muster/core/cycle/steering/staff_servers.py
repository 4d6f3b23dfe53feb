"""Gives jobs whose parameter servers are optional as many as make their steps faster, or none.

Servers need cores and memory, no devices: they go where the network cards are fastest and idle, first
beside none of the job's workers, whose cards carry gradients already, then beside them. What a worker
on each free device of a node would need is left there.
"""

from collections.abc import Iterator

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.plans import DWELL
from muster.model.job import Role, RoleSpec
from muster.model.placement import Placement, Slot
from muster.model.profile import CapturedShape
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.perf.wires import LinkClass, Wire, prior


def staff_servers(cycle: CycleState) -> None:
    """Decide the servers of jobs that start, change or run, and whose training is known."""
    for state, spec in _asked(cycle):
        shape = cycle.shape_of(state)
        if shape is not None:
            _staff(cycle, state, spec, shape)


def _asked(cycle: CycleState) -> Iterator[tuple[JobState, RoleSpec]]:
    outcome = cycle.outcome
    for number, state in cycle.view.jobs.items():
        if len(state.job.roles) == 1:  # workers: most jobs have no servers
            continue
        spec = next((spec for spec in state.job.roles if spec.optional), None)
        gone = number in outcome.stops or number in outcome.moves or number in cycle.settled
        if spec is None or gone:
            continue
        runs = state.phase is Phase.RUNNING and not state.job.restarts
        fresh = runs and number not in outcome.resizes and cycle.now < state.planned + DWELL
        if number in outcome.starts or (runs and not fresh):
            yield state, spec


def _staff(cycle: CycleState, state: JobState, spec: RoleSpec, shape: CapturedShape) -> None:
    placed = cycle.placement_of(state)
    workers = Placement(tuple(slot for slot in placed.slots if slot.role is Role.WORKER))
    had = [slot for slot in placed.slots if slot.role is Role.SERVER]
    held = {slot.index for slot in (*had, *state.held()) if slot.role is Role.SERVER}
    hosts = [*had, *_places(cycle, spec, workers, had, held)][: spec.most]
    count = cycle.standing.plans.servers(state.job, shape, workers, hosts, len(had))
    if count is None or count == len(had):
        return
    if count > len(had):
        cycle.extend(state, tuple(hosts[len(had) : count]), Reason(Code.STAFFED))
    elif state.number not in cycle.outcome.starts:
        cycle.shrink(state, tuple(had[count:]), Reason(Code.STAFFED))


def _places(
    cycle: CycleState, spec: RoleSpec, workers: Placement, had: list[Slot], held: set[int]
) -> Iterator[Slot]:
    """Yield a server for each node with room, the best place first; those `held` keep their numbers
    until they have left."""
    board, cluster = cycle.board, cycle.view.cluster
    busy, taken = workers.nodes(), {slot.node for slot in had}
    cards = {
        name: prior(cluster, LinkClass(Wire.NIC, name)).bandwidth for name in cluster.configurations
    }
    need, worker, free = spec.need, workers.slots[0].need, []
    for i, node in enumerate(cluster.nodes):
        left = board.free[i].bit_count() // max(1, worker.devices)
        cores = board.millicores[i] >= need.millicores + left * worker.millicores
        memory = board.memory[i] >= need.memory + left * worker.memory
        if board.usable[i] and cores and memory and not need.devices and node.name not in taken:
            card = cycle.view.uplinks.get(node.name, cards[node.configuration])
            free.append((node.name in busy, -card, node.name))
    indices = (index for index in range(len(free) + len(held)) if index not in held)
    for (_, _, name), index in zip(sorted(free), indices, strict=False):
        yield Slot(Role.SERVER, index, name, 0, need)
