"""What must hold of the cycle, whatever happens: each test is one sentence."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from muster.core.cycle.cycle import decide, kept
from muster.core.cycle.options import options
from muster.model.cluster import Cluster, NodeState
from muster.model.decision import Kind
from muster.model.event import NodeLost, NodeReturned
from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.placement import Placement
from muster.model.plan import Part, Plan
from muster.model.pool import Pool, PoolTree, Quota, single_pool
from muster.model.topology import Level
from muster.model.view import Phase, View
from muster.perf.slowdown import SYNC_ONLY, reach, step_seconds
from muster.place.board import Board
from muster.place.contract import spanned
from muster.place.pack import pack
from muster.place.request import Request
from muster.policy.published.fifo import Fifo
from muster.sim.play import play
from muster.sim.truth import Arrival
from tests.builders import cluster, job, node_set, placement, running, view
from tests.numbers import number
from tests.prop.worlds import History, clusters, held_by_pool, histories, plain_jobs
from tests.world import Frame, World

EVERY = settings(max_examples=30, deadline=None, derandomize=True, database=None)
FEWER = settings(EVERY, max_examples=12)


def frames(history: History) -> Iterator[Frame]:
    return history.play(history.world())


@given(histories())
@EVERY
def test_no_device_is_ever_held_by_two_gangs(history: History) -> None:
    for frame in frames(history):
        held = {node.name: 0 for node in frame.after.cluster.nodes}
        for state in frame.after.jobs.values():
            for slot in set(state.held()):
                assert held[slot.node] & slot.bits == 0
                held[slot.node] |= slot.bits
        for node in frame.after.cluster.nodes:
            everything = frame.after.cluster.configuration_of(node).all_devices
            if node.state is not NodeState.LOST:
                assert node.free == everything & ~held[node.name]


@given(histories())
@EVERY
def test_a_gang_is_whole_or_absent(history: History) -> None:
    for frame in frames(history):
        for state in frame.after.jobs.values():
            assert (state.placement is None) == (state.phase is Phase.WAITING)
            for there in (state.placement, state.target):
                for spec in state.job.roles if there else ():
                    assert there is not None
                    assert spec.gang <= there.count(spec.role) <= spec.most


@given(histories())
@EVERY
def test_no_pool_rises_above_its_limit(history: History) -> None:
    for frame in frames(history):
        for (pool, device_type), held in held_by_pool(frame.after).items():
            limit = frame.after.pools.pools[pool].quota(device_type).limit
            assert limit is None or held <= limit


@given(histories())
@EVERY
def test_what_is_not_preemptible_stays_within_reservations_and_is_never_preempted(
    history: History,
) -> None:
    for frame in frames(history):
        fixed = {name: s for name, s in frame.after.jobs.items() if not s.job.preemptible}
        for (pool, device_type), held in held_by_pool(replace(frame.after, jobs=fixed)).items():
            assert held <= frame.after.pools.pools[pool].quota(device_type).reservation
        assert not {decision.job for decision in frame.of(Kind.PREEMPT)} & set(fixed)


@given(histories())
@EVERY
def test_a_contract_is_never_broken(history: History) -> None:
    for frame in frames(history):
        for decision in frame.of(Kind.START, Kind.RESIZE, Kind.MIGRATE):
            asked = frame.before.jobs[decision.job].job
            assert decision.placement is not None
            span = spanned(frame.before.cluster, decision.placement)
            assert span <= asked.locality.widest
            if asked.locality.max_slowdown is not None and decision.placement.devices > 1:
                assert _slowdown(frame.before.cluster, asked, decision.placement) < (
                    asked.locality.max_slowdown + 1e-9
                )


def _slowdown(there: Cluster, asked: Job, placed: Placement) -> float:
    """How much slower a step is than on the best placement the job could have on an empty cluster."""
    used = {there.node(slot.node).configuration for slot in placed.slots if slot.bits}
    span = spanned(there, placed)
    found = []
    for option in options(asked, there):
        if used <= set(option):
            kinds = tuple(there.configurations[name] for name in option)
            times = {
                level: step_seconds(SYNC_ONLY, placed.devices, link)
                for level, link in reach(there, kinds, placed.devices).links
            }
            wide = max(span, min(times))
            found.append(times[wide] / times[min(times)] - 1)
    return min(found)


@given(histories())
@EVERY
def test_equal_inputs_give_equal_decisions(history: History) -> None:
    for frame in frames(history):
        twin = pickle.loads(pickle.dumps(frame.before))
        assert decide(Fifo(), twin, frame.now, frame.memory) == frame.decided


@given(histories())
@EVERY
def test_a_view_is_never_changed_by_deciding(history: History) -> None:
    world = history.world()
    for frame in history.play(world):
        before = pickle.dumps(frame.before)
        decide(Fifo(), frame.before, frame.now, frame.memory)
        assert pickle.dumps(frame.before) == before


@given(histories())
@EVERY
def test_every_job_gets_a_decision_with_a_reason_in_every_cycle(history: History) -> None:
    for frame in frames(history):
        told = [d.job for d in frame.decided.decisions] + [
            k.job for k in kept(frame.before, frame.decided)
        ]
        assert sorted(told) == sorted(frame.before.jobs)


@given(histories())
@EVERY
def test_nobody_is_overtaken_by_a_younger_equal(history: History) -> None:
    world = history.world()
    for frame in history.play(world):
        waiting = [frame.before.jobs[d.job] for d in frame.of(Kind.WAIT)]
        for decision in frame.of(Kind.START):
            young = frame.before.jobs[decision.job]
            for old in waiting:
                alike = replace(old.job, name=young.job.name, number=young.number) == young.job
                assert not (alike and old.submitted < young.submitted), (old.number, young.number)


@given(histories(types=1, make=lambda _, pools: plain_jobs(pools), seconds=(1.0, 5.0)))
@EVERY
def test_a_pool_with_demand_is_not_below_its_reservation_two_cycles_later(history: History) -> None:
    """One device each, anywhere, and nobody out of patience: only another pool's use could be in the
    way of a gang that fits into what its pool has reserved and does not use."""
    world = history.world()
    for _ in history.play(world):
        pass
    world.happen(*(NodeReturned(node.name, world.now) for node in world.view.cluster.nodes))
    for _ in range(2):
        frame = world.settle()
    held = held_by_pool(frame.after)
    for decision in frame.of(Kind.WAIT):
        asked = frame.before.jobs[decision.job].job
        reserved = frame.before.pools.pools[asked.pool].quota("A100").reservation
        assert held[asked.pool, "A100"] + asked.workers.gang > reserved, decision


@given(clusters(types=1), st.integers(0, 3), st.integers(0, 2**16))
@FEWER
def test_two_whole_cluster_gangs_never_both_hold_devices_and_both_finish(
    there: Cluster, small: int, salt: int
) -> None:
    random = Random(salt)
    whole = there.devices_by_type()["A100"]
    arrivals = [
        Arrival(random.choice((0.0, 100.0)), job(f"small{i}", duration=500.0)) for i in range(small)
    ]
    arrivals += [
        Arrival(0.0, job(name, whole, duration=random.choice((None, 1000.0))))
        for name in ("one", "two")
    ]
    last = None
    for last in play(there, view(there).pools, arrivals, Fifo()):
        holding = {s.job.name for s in last.after.jobs.values() if s.held()}
        assert not {"one", "two"} <= holding
    assert last is not None and not last.after.jobs


@given(clusters(types=1), st.integers(0, 2**16))
@EVERY
def test_after_a_lost_node_returns_a_stranded_gang_is_not_overtaken_by_a_younger_equal(
    there: Cluster, salt: int
) -> None:
    random = Random(salt)
    size = random.randint(2, there.devices_by_type()["A100"])
    world = World(view(there))
    world.submit(job("old", size))
    world.settle()
    world.now += 1
    world.submit(job("young", size))
    for _ in range(random.randint(0, 3)):
        world.settle(random.choice((1.0, 700.0)))
    placed = world.view.jobs[number("old")].placement
    assert placed is not None
    lost = random.choice(sorted(placed.nodes()))
    world.happen(NodeLost(lost, world.now))
    for _ in range(random.randint(0, 3)):
        _young_waits_while_old_does(world.settle(random.choice((1.0, 700.0))))
    world.happen(NodeReturned(lost, world.now))
    for _ in range(4):
        _young_waits_while_old_does(world.settle())
    assert world.view.jobs[number("old")].phase is Phase.RUNNING


def _young_waits_while_old_does(frame: Frame) -> None:
    started = {decision.job for decision in frame.of(Kind.START)}
    assert number("young") not in started or frame.after.jobs[number("old")].phase is not Phase.WAITING


@st.composite
def borrowed(draw: st.DrawFn) -> tuple[View, Job]:
    """A cluster on which one pool has borrowed all it could, and a gang of the owner."""
    there = cluster(draw(st.integers(1, 3)), node_set(devices=draw(st.sampled_from((4, 8)))))
    size, whole = there.nodes[0].free.bit_count(), there.devices_by_type()["A100"]
    pools = PoolTree(
        {
            "owner": Pool("owner", quotas={"A100": Quota(reservation=whole)}),
            "guest": Pool("guest"),
        }
    )
    states, number = [], 0
    for node in there.nodes:
        at = draw(st.integers(0, 2))
        while at < size:
            wide = min(draw(st.sampled_from((1, 1, 2, 4))), size - at)
            guest = job(f"g{number}", wide, pool="guest", priority=draw(st.sampled_from((0, 0, 1))))
            bits = placement(*((node.name, 1 << bit) for bit in range(at, at + wide)))
            states.append(running(guest, bits, started=draw(st.sampled_from((0.0, 50.0, 90.0)))))
            number, at = number + 1, at + wide
    level = draw(st.sampled_from((Level.NODE, Level.CLUSTER)))
    gang = draw(st.integers(1, size if level is Level.NODE else whole))
    asked = job("asks", gang, pool="owner")
    asked = replace(asked, locality=replace(asked.locality, widest=level))
    return view(there, [*states, asked], pools), asked


@given(borrowed())
@settings(EVERY, max_examples=60)
def test_never_more_is_preempted_than_needed(scene: tuple[View, Job]) -> None:
    before, asked = scene
    frame = World(before, now=100.0).cycle()
    victims = [decision.job for decision in frame.of(Kind.PREEMPT)]
    for spared in victims:
        others = [before.jobs[name] for name in victims if name != spared]
        board = Board(before.cluster)
        for state in others:
            board.put_back(state.held())
        plan = Plan((Part(Role.WORKER, asked.workers.gang, asked.workers.need),))
        assert pack(board, Request(plan, ("a",), asked.locality.widest)) is None


@given(borrowed())
@settings(EVERY, max_examples=60)
def test_a_gang_within_its_reservation_starts_once_the_guests_have_gone(
    scene: tuple[View, Job],
) -> None:
    world = World(scene[0], now=100.0)
    world.cycle()
    world.settle()
    assert world.view.jobs[number("asks")].phase is not Phase.WAITING


@given(histories(cycles=10))
@EVERY
def test_with_nothing_arriving_or_ending_the_cycle_comes_to_rest(history: History) -> None:
    """No endless resizing, moving or preempting: after a while every decision is to wait."""
    world = history.world()
    for _ in history.play(world):
        pass
    busy = [number for number in range(40) if len(world.settle(60.0).of(*_ACTS))]
    assert not busy or busy[-1] < 30, busy


_ACTS = (Kind.START, Kind.RESIZE, Kind.MIGRATE, Kind.PREEMPT)


@given(histories(cycles=10))
@EVERY
def test_a_repeated_cycle_on_the_result_starts_nothing_that_could_have_started_before(
    history: History,
) -> None:
    """A second look at once, before anything is done: everything that fits has been started."""
    world = history.world()
    for frame in history.play(world):
        twin = World(frame.after, frame.now, frame.decided.memory)
        again = twin.cycle()
        changed = {decision.job for decision in frame.of(Kind.PREEMPT, Kind.RESIZE)}
        if not changed:
            assert not again.of(Kind.START), again.of(Kind.START)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[World, Job, int]:
    """A full cluster of small jobs, and one large gang that waits behind them."""
    there = draw(clusters(types=1))
    whole = there.devices_by_type()["A100"]
    size = draw(st.integers(max(1, whole // 2), whole))
    pools = draw(
        st.sampled_from(
            (
                single_pool({"A100": whole}, "crowd"),
                PoolTree({"crowd": Pool("crowd"), "idle": Pool("idle")}),
                PoolTree(
                    {
                        "crowd": Pool("crowd", quotas={"A100": Quota(reservation=size)}),
                        "other": Pool("other"),
                    }
                ),
            )
        )
    )
    contract = draw(st.sampled_from((Level.CLUSTER, Level.NODE)))
    if contract is Level.NODE:
        size = min(size, min(node.free.bit_count() for node in there.nodes))
    large = job("large", size, pool="crowd", preemptible=draw(st.booleans()))
    large = replace(large, locality=replace(large.locality, widest=contract))
    return World(View(0, there, pools, {})), large, draw(st.integers(0, 2**16))


@given(crowds())
@FEWER
def test_no_job_starves_under_a_stream_of_younger_small_ones(scene: tuple[World, Job, int]) -> None:
    world, large, salt = scene
    reserved = world.view.pools.pools["crowd"].quota("A100").reservation
    assume(large.preemptible or large.workers.gang <= reserved)
    random = Random(salt)
    names = (f"s{i}" for i in range(10_000))
    world.submit(*(_small(next(names), random, world) for _ in range(48)))
    world.settle()
    world.submit(large)
    for _ in range(120):
        world.now += 60.0
        world.complete()
        world.end(*_done(world, random))
        world.submit(*(_small(next(names), random, world) for _ in range(random.randint(2, 8))))
        world.cycle()
        if (
            number("large") not in world.view.jobs
            or world.view.jobs[number("large")].phase is not Phase.WAITING
        ):
            return
    raise AssertionError("the large gang never started")


def _small(name: str, random: Random, world: World) -> Job:
    pool = random.choice([name for name in world.view.pools.leaves() if name != "idle"])
    spec = RoleSpec(Role.WORKER, Need(1), 1, 1, random.choice((1, 1, 2)))
    duration = random.choice((None, 200.0, 3600.0))
    return Job(name, roles=(spec,), pool=pool, duration=duration, number=number(name))


def _done(world: World, random: Random) -> list[str]:
    """Small jobs that end now: each runs for a few cycles, whatever it said."""
    running_now = [s.job.name for s in world.view.jobs.values() if s.phase is Phase.RUNNING]
    return [name for name in running_now if name != "large" and random.random() < 0.3]
