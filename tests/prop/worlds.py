"""Random worlds for the cycle: clusters, pools, jobs, and a history of what happens to them."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from muster.core.quotas.demand import held_by_type
from muster.model.cluster import Cluster, NodeState
from muster.model.event import (
    Cancelled,
    Checkpointed,
    Ended,
    Event,
    NodeAdded,
    NodeDraining,
    NodeLeft,
    NodeLost,
    NodeReturned,
    Outcome,
)
from muster.model.job import Job, Locality, Need, Role, RoleSpec
from muster.model.pool import EVERY_TYPE, Pool, PoolTree, Quota
from muster.model.topology import Level
from muster.model.view import JobState, Phase, View
from tests.builders import GB, mixed, node_set
from tests.numbers import number
from tests.world import COMPLETES, Frame, World, completion


@dataclass(frozen=True, slots=True)
class History:
    """A world to begin with, and what happens in it: for each cycle seconds, new jobs, and a salt
    from which the other events follow."""

    view: View
    steps: tuple[tuple[float, tuple[Job, ...], int], ...]
    joining: Cluster | None = None
    """Whose nodes join, change and leave; None: the nodes of the view stay."""

    def world(self) -> World:
        """The world at the beginning."""
        return World(self.view)

    def play(self, world: World) -> Iterator[Frame]:
        """Each cycle; changes under way are completed after a random number of cycles."""
        for seconds, jobs, salt in self.steps:
            random = Random(salt)
            world.now += seconds
            world.happen(*_job_events(world, random))
            world.happen(*_node_events(world, random))
            if self.joining is not None:
                world.happen(*_comings_and_goings(world, self.joining, random))
            world.submit(*jobs)
            yield world.cycle()


def _job_events(world: World, random: Random) -> list[Event]:
    found = (_job_event(state, world.now, random.random()) for state in world.view.jobs.values())
    return [event for event in found if event is not None]


def _job_event(state: JobState, now: float, chance: float) -> Event | None:
    if state.phase in COMPLETES:
        return completion(state, now) if chance < 0.5 else None
    if chance < 0.03:
        return Cancelled(state.number, now)
    if state.phase is Phase.RUNNING and chance < 0.13:
        return Ended(state.number, state.generation, Outcome.SUCCEEDED, now)
    if state.phase is Phase.RUNNING and chance < 0.23:
        return Checkpointed(state.number, state.generation, now)
    return None


def _node_events(world: World, random: Random) -> list[Event]:
    found: list[Event] = []
    for node in world.view.cluster.nodes:
        chance = random.random()
        if chance < 0.04:
            found.append(NodeLost(node.name, world.now))
        elif chance < 0.07:
            found.append(NodeDraining(node.name, world.now))
        elif node.state is not NodeState.UP and chance < 0.4:
            found.append(NodeReturned(node.name, world.now))
    return found


def _comings_and_goings(world: World, joining: Cluster, random: Random) -> list[Event]:
    """Nodes that join, that leave without tasks, and whose description changes."""
    found: list[Event] = []
    kinds = list(joining.configurations.values())
    busy = {slot.node for state in world.view.jobs.values() for slot in state.held()}
    for node in joining.nodes:
        chance, kind = random.random(), joining.configuration_of(node)
        if node.name not in world.view.cluster.index:
            if chance < 0.3:
                found.append(NodeAdded(node, world.now, kind))
        elif node.name not in busy and chance < 0.1:
            found.append(NodeLeft(node.name, world.now))
        elif chance < 0.15:
            other = kind if node.name in busy else random.choice(kinds)
            changed = replace(node, configuration=other.name, rack=random.choice(("r0", "r1", "r2")))
            if world.view.cluster.node(node.name).configuration == other.name or other is not kind:
                found.append(NodeAdded(changed, world.now, other))
    return found


@st.composite
def clusters(draw: st.DrawFn, types: int = 2) -> Cluster:
    """One or two device types, one to three nodes of each, in one or two racks."""
    kinds = [node_set("a", devices=draw(st.sampled_from((4, 8))), cores=16)]
    if types > 1 and draw(st.booleans()):
        generation = draw(st.sampled_from(("volta", "ampere")))
        devices = draw(st.sampled_from((4, 8)))
        kinds.append(
            node_set("b", device_type="V100", generation=generation, devices=devices, cores=16)
        )
    parts = [(draw(st.integers(1, 3)), kind) for kind in kinds]
    return mixed(*parts, racks=draw(st.integers(1, 2)))


@st.composite
def pool_trees(draw: st.DrawFn, cluster: Cluster) -> PoolTree:
    """One to three pools, some with pools below, some of those with pools below in turn."""
    whole = cluster.devices_by_type()
    pools: dict[str, Pool] = {}
    _split(draw, pools, "", 1, whole, draw(st.integers(1, 3)))
    return PoolTree(pools)


def _split(
    draw: st.DrawFn, pools: dict[str, Pool], above: str, depth: int, left: dict[str, int], count: int
) -> None:
    """Pools below one, which together reserve no more than it does."""
    left = dict(left)
    for each in range(count):
        quotas: dict[str, Quota] = {}
        for device_type in left:
            reservation = draw(st.integers(0, left[device_type]))
            left[device_type] -= reservation
            spare = draw(st.sampled_from((None, None, 0, 1, 2, 4, 8)))
            limit = None if spare is None else reservation + spare
            quotas[device_type] = Quota(reservation, draw(st.sampled_from((1.0, 2.0))), limit)
        name = f"{above}{each}" if above else f"p{each}"
        pools[name] = Pool(name, above or "cluster", quotas)
        if depth < 3 and draw(st.integers(0, 3)) == 0:
            reserved = {device_type: quota.reservation for device_type, quota in quotas.items()}
            _split(draw, pools, name, depth + 1, reserved, 2)


def jobs(cluster: Cluster, pools: PoolTree) -> st.SearchStrategy[Callable[[str], Job]]:
    """Jobs of every sort, as functions of their name."""
    types = cluster.device_types()
    return st.builds(
        _job,
        pool=st.sampled_from(pools.leaves()),
        workers=st.sampled_from(
            ((1, 1, 1), (1, 1, 4), (2, 2, 2), (1, 3, 3), (2, 4, 6), (4, 4, 4), (8, 8, 8), (4, 8, 12))
        ),
        need=st.sampled_from((Need(1, 1_000, GB), Need(1), Need(1, 4_000, GB), Need(2, 1_000, GB))),
        servers=st.sampled_from((0, 0, 0, 1, 2)),
        priority=st.sampled_from((0, 0, 0, 1)),
        preemptible=st.sampled_from((True, True, True, False)),
        device_types=st.sampled_from(((), (), types[:1], types)),
        same_generation=st.sampled_from((True, True, False)),
        locality=st.builds(
            Locality,
            st.sampled_from((Level.CLUSTER, Level.CLUSTER, Level.SWITCH, Level.NODE, Level.RACK)),
            st.sampled_from((None, None, 0.05, 0.5)),
        ),
        duration=st.sampled_from((None, 100.0, 1000.0)),
        pause=st.sampled_from((0.0, 30.0, 200.0)),
    )


def plain_jobs(pools: PoolTree) -> st.SearchStrategy[Callable[[str], Job]]:
    """Jobs of one-device workers that go anywhere, with nothing to bind them but their pool."""
    return st.builds(
        _job,
        pool=st.sampled_from(pools.leaves()),
        workers=st.sampled_from(((1, 1, 1), (1, 1, 4), (2, 2, 2), (3, 3, 3), (4, 4, 6), (8, 8, 8))),
        need=st.just(Need(1)),
        servers=st.just(0),
        priority=st.sampled_from((0, 0, 1)),
        preemptible=st.sampled_from((True, True, True, False)),
        pause=st.sampled_from((0.0, 30.0)),
    )


def _job(
    *, workers: tuple[int, int, int], need: Need, servers: int, **fields: object
) -> Callable[[str], Job]:
    gang, least, most = workers
    roles: tuple[RoleSpec, ...] = (RoleSpec(Role.WORKER, need, gang, least, most),)
    if servers:
        roles += (RoleSpec(Role.SERVER, Need(0, 1_000, GB), 1, 1, servers),)
    plain = Job("", roles=roles)
    return lambda name: replace(plain, name=name, number=number(name), **fields)  # type: ignore[arg-type]


@st.composite
def histories(
    draw: st.DrawFn,
    *,
    cycles: int = 16,
    types: int = 2,
    make: Callable[[Cluster, PoolTree], st.SearchStrategy[Callable[[str], Job]]] = jobs,
    seconds: tuple[float, ...] = (1.0, 60.0, 300.0),
    trees: Callable[[Cluster], st.SearchStrategy[PoolTree]] = pool_trees,
) -> History:
    """A world of its own, and this many cycles in it."""
    cluster = draw(clusters(types))
    pools = draw(trees(cluster))
    drawn = draw(st.lists(make(cluster, pools), min_size=2, max_size=14))
    named = [make_job(f"j{i}") for i, make_job in enumerate(drawn)]
    when = draw(st.lists(st.integers(0, cycles - 1), min_size=len(named), max_size=len(named)))
    salt = draw(st.integers(0, 2**16))
    times = Random(salt)
    steps = tuple(
        (
            times.choice(seconds),
            tuple(job for job, at in zip(named, when, strict=True) if at == i),
            salt + i,
        )
        for i in range(cycles)
    )
    return History(View(0, cluster, pools, {}), steps)


@st.composite
def open_histories(draw: st.DrawFn, *, cycles: int = 16) -> History:
    """The same on a cluster of which none, some or all nodes are there at first."""
    history = draw(histories(cycles=cycles, trees=part_trees))
    whole = history.view.cluster
    there = draw(st.integers(0, len(whole.nodes)))
    first = replace(whole, nodes=whole.nodes[:there], open=True)
    if draw(st.booleans()):
        used = {node.configuration for node in first.nodes}
        kinds = {name: kind for name, kind in whole.configurations.items() if name in used}
        first = replace(first, configurations=kinds)
    return History(replace(history.view, cluster=first), history.steps, whole)


@st.composite
def part_trees(draw: st.DrawFn, cluster: Cluster) -> PoolTree:
    """One to three pools that reserve and limit parts, or fixed numbers."""
    pools, left = {}, 1.0
    for name in ("p0", "p1", "p2")[: draw(st.integers(1, 3))]:
        part = draw(st.sampled_from((0.0, 0.25, 1 / 3, left)))
        part = min(part, left)
        left -= part
        limits = st.sampled_from((None, None, part, (1 + part) / 2))
        quota = draw(
            st.sampled_from(
                (Quota(reservation_part=part, limit_part=draw(limits)), Quota(reservation=4), Quota())
            )
        )
        pools[name] = Pool(name, quotas={EVERY_TYPE: quota})
    return PoolTree(pools)


def held_by_pool(view: View) -> Counter[tuple[str, str]]:
    """Devices held by each pool, inner ones included, by type; during a move, one of the places."""
    found: Counter[tuple[str, str]] = Counter()
    for state in view.jobs.values():
        most: Counter[str] = Counter()
        for placement in (state.placement, state.target):
            if placement is not None:
                most |= held_by_type(view.cluster, placement.slots)
        for device_type, count in most.items():
            for pool in view.pools.ancestry(state.job.pool):
                found[pool, device_type] += count
    return found
