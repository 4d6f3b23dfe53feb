"""Steering, by hand: what a cycle does so that every job has just what the policy says."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest

from muster.core.cycle.cycle import Decisions, Memory, decide
from muster.core.cycle.cycle_state import Rules
from muster.core.state.check import check
from muster.core.why.words import tell
from muster.model.cluster import Cluster, NodeState
from muster.model.decision import Decision, Kind, Promise
from muster.model.job import Job, Locality, Need, Role, RoleSpec, StepProfile
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.reason import Code, Holder
from muster.model.topology import Level
from muster.model.view import JobState, Phase, View
from muster.policy.base import Allocation, Shares, exactly
from muster.policy.registry import POLICIES
from tests.builders import GB, cluster, job, mixed, node_set, placement, running, slot, view
from tests.numbers import name_of, number
from tests.world import flat

PACK = Rules(strategy="pack")
FOUR = node_set(devices=4)
TYPES = mixed((1, node_set("a", devices=4)), (1, node_set("b", device_type="V100", devices=4)))


@dataclass(frozen=True, slots=True)
class Says:
    """Says the same whatever it sees."""

    allocations: tuple[Allocation, ...]
    name: str = "says"
    informed: bool = field(default=False)

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        return Shares(self.allocations, memory, steers=True)


def steer(
    on: Cluster,
    jobs: Iterable[Job | JobState],
    *wanted: Allocation,
    pools: PoolTree | None = None,
    rules: Rules = PACK,
    memory: Memory | None = None,
    now: float = 1000.0,
) -> tuple[dict[str, Decision], Decisions]:
    """One cycle, checked; its decisions by job."""
    seen = view(on, jobs, pools)
    decided = decide(Says(wanted), seen, now, memory or Memory(), rules)
    check(seen, decided)
    return {name_of(decision.job): decision for decision in decided.decisions}, decided


def counts(decision: Decision) -> dict[str, int]:
    """Devices on each node."""
    assert decision.placement is not None
    return {node: bits.bit_count() for node, bits in decision.placement.bits().items() if bits}


def on(node: str, *bits: int, first: int = 0) -> Any:
    return placement(*(slot(node, bit, first + i) for i, bit in enumerate(bits)))


def on_both(one: str, here: Iterable[int], other: str, there: Iterable[int]) -> Any:
    first = on(one, *here)
    return first.with_slots(on(other, *there, first=len(first.slots)).slots)


# Starts


def test_a_waiting_job_gets_just_its_target() -> None:
    told, _ = steer(cluster(2, FOUR), [job("j", 1, most=8)], exactly(number("j"), 3))
    assert (told["j"].kind, counts(told["j"])) == (Kind.START, {"n0": 3})


def test_one_that_is_to_have_nothing_waits() -> None:
    told, _ = steer(cluster(2, FOUR), [job("j")], exactly(number("j"), 0))
    assert told["j"].kind is Kind.WAIT
    assert told["j"].reason.code is Code.WAITING_POLICY


def test_one_that_is_to_have_nothing_and_would_not_fit_is_told_what_it_lacks() -> None:
    holds = running(job("p1", 2, preemptible=False), on("n0", 1, 2))
    told, _ = steer(cluster(1, FOUR), [holds, job("j", 4)], exactly(number("j"), 0))
    assert tell(told["j"].reason) == (
        "too few free devices of its types; needs 4, 2 free, at most 2; "
        "next in pool default, submitted 16m39s ago, behind p1 (2 devices, 16m40s), "
        "its pool uses 2 of the 4 devices it may use"
    )


def test_one_that_is_to_have_nothing_while_its_nodes_are_away_waits_for_them() -> None:
    empty = cluster(2, FOUR)
    away = replace(empty, nodes=tuple(replace(n, state=NodeState.DRAINING) for n in empty.nodes))
    told, _ = steer(away, [job("left out"), job("j")], exactly(number("j"), 0))
    assert {decision.reason.code for decision in told.values()} == {Code.WAITING_NODES}


def test_one_that_is_to_have_nothing_where_devices_are_too_far_apart_is_told_so() -> None:
    holds = [running(job(f"h{i}", 2), on(f"n{i}", 1, 2)) for i in range(2)]
    asks = job("j", 4, locality=Locality(Level.NODE))
    told, _ = steer(cluster(2, FOUR), [*holds, asks], exactly(number("j"), 0))
    assert told["j"].reason.code is Code.WAITING_FRAGMENTED
    rank = told["j"].reason.rank
    assert rank is not None and [each.name for each in rank.ahead] == ["h0", "h1"]


def test_one_that_is_to_have_nothing_beyond_its_pools_entitlement_is_told_of_that() -> None:
    pools = flat(a=Quota(), b=Quota())
    holds = [
        running(job("a0", 4, pool="a"), on("n0", 1, 2, 4, 8)),
        running(job("b0", 4, pool="b"), on("n1", 1, 2, 4, 8)),
    ]
    told, _ = steer(cluster(2, FOUR), [*holds, job("j", pool="a")], pools=pools)
    assert told["j"].reason.code is Code.WAITING_QUOTA
    assert told["j"].reason.holders == (Holder("a0", "a", 4),)


def test_one_that_is_to_have_nothing_beyond_its_pools_limit_is_told_of_that() -> None:
    pools = flat(a=Quota(limit=2), b=Quota())
    told, _ = steer(cluster(1, FOUR), [job("j", 3, pool="a")], pools=pools)
    assert told["j"].reason.code is Code.WAITING_LIMIT


def test_one_that_is_to_have_nothing_is_told_for_whom_devices_are_kept() -> None:
    """Three are free, two of them kept for l, which waits for four more."""
    holds = running(job("h", 1, preemptible=False), on("n0", 1))
    leaves = running(job("q", 4), on("n1", 1, 2, 4, 8), phase=Phase.PREEMPTING)
    large = job("l", 6)
    kept = Promise(number("l"), on_both("n0", (2, 4), "n1", (1, 2, 4, 8)), Code.WAITING_MIGRATION, inf)
    told, _ = steer(
        cluster(2, FOUR),
        [holds, leaves, large, job("j", 3)],
        exactly(number("l"), 6),
        exactly(number("j"), 0),
        memory=Memory(promises=(kept,)),
    )
    assert (told["j"].reason.code, told["j"].reason.beneficiary) == (Code.WAITING_PROMISE, "l")


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_under_every_policy_a_queue_behind_one_holder_is_told_who_holds_what(policy: str) -> None:
    """Priority does not help against a job that cannot give way."""
    holder = running(job("holder", 8, preemptible=False), on("n0", *(1 << i for i in range(8))))
    asks = [job(f"j{i}", 1 + i % 8, priority=10 * (i % 2)) for i in range(130)]
    pools = flat(default=Quota(reservation=8))
    decided = decide(POLICIES[policy], view(cluster(1), [holder, *asks], pools), 1000.0, Memory())
    assert len(decided.decisions) == 130
    for decision in decided.decisions:
        assert decision.reason.code is Code.WAITING_DEVICES
        assert decision.reason.holders == (Holder("holder", "default", 8),)


def test_one_that_is_left_out_waits_and_runs_on() -> None:
    runs = running(job("r", 2), on("n0", 1, 2))
    told, _ = steer(cluster(2, FOUR), [runs, job("w")])
    assert set(told) == {"w"}


def test_when_less_is_there_and_nothing_comes_it_starts_with_less() -> None:
    """Six are free of the eight it should have, gang 2."""
    stays = running(job("r", 2, preemptible=False), on("n0", 1, 2))
    told, _ = steer(cluster(2, FOUR), [stays, job("j", 2, most=8)], exactly(number("j"), 8))
    assert (told["j"].kind, sum(counts(told["j"]).values())) == (Kind.START, 6)


def test_when_more_is_about_to_come_it_waits_for_it() -> None:
    """r is stopped for it: better to start once with eight than now with six and again later."""
    runs = running(job("r", 2), on("n0", 1, 2))
    waits = job("j", 2, most=8, restarts=True)
    told, _ = steer(cluster(2, FOUR), [runs, waits], exactly(number("r"), 0), exactly(number("j"), 8))
    assert (told["r"].kind, told["j"].kind) == (Kind.PREEMPT, Kind.WAIT)


def test_one_that_grows_live_does_not_wait_for_what_is_about_to_come() -> None:
    """Six are idle: it starts there, and the other two join."""
    runs = running(job("r", 2), on("n0", 1, 2))
    waits = job("j", 2, most=8)
    told, _ = steer(cluster(2, FOUR), [runs, waits], exactly(number("r"), 0), exactly(number("j"), 8))
    assert (told["r"].kind, sum(counts(told["j"]).values())) == (Kind.PREEMPT, 6)


def test_below_the_gang_there_is_nothing() -> None:
    stays = running(
        job("r", 6, preemptible=False), on("n0", 1, 2, 4, 8).with_slots(on("n1", 1, 2, first=4).slots)
    )
    told, _ = steer(cluster(2, FOUR), [stays, job("j", 3, most=8)], exactly(number("j"), 4))
    assert told["j"].kind is Kind.WAIT
    assert told["j"].reason.code is Code.WAITING_DEVICES


@pytest.mark.parametrize(("widest", "racks", "got"), [(Level.NODE, 1, 4), (Level.RACK, 2, 8)])
def test_a_contract_bounds_what_it_starts_with(widest: Level, racks: int, got: int) -> None:
    """Twelve wanted; a node holds four, a rack of two nodes eight."""
    asked = job("j", 1, most=12, locality=Locality(widest))
    told, _ = steer(cluster(4, FOUR, racks=racks), [asked], exactly(number("j"), 12))
    assert sum(counts(told["j"]).values()) == got


def test_scattered_room_is_made_whole_by_moving_small_jobs() -> None:
    """Two free on each node, a gang of four that must be on one: a small job moves, then it starts."""
    small = [running(job("a", 2), on("n0", 1, 2)), running(job("b", 2), on("n1", 1, 2))]
    asked = replace(job("j", 4), locality=Locality(Level.NODE))
    waits = JobState(asked, Phase.WAITING, submitted=0.0)
    whole = cluster(2, FOUR)
    told, decided = steer(whole, [*small, waits], exactly(number("j"), 4))
    moved = [name for name, decision in told.items() if decision.kind is Kind.MIGRATE]
    assert len(moved) == 1 and told["j"].reason.code is Code.WAITING_MIGRATION
    after = told[moved[0]].placement
    assert after is not None
    still = [replace(s, placement=after, generation=2) if s.job.name in moved else s for s in small]
    told, _ = steer(whole, [*still, waits], exactly(number("j"), 4), memory=decided.memory)
    assert (told["j"].kind, told["j"].reason.code) == (Kind.START, Code.STARTED_PROMISED)


# Letting go


def test_what_has_too_much_gives_back_from_where_it_has_fewest() -> None:
    runs = running(job("j", 1, most=8), on("n0", 1, 2, 4, 8).with_slots(on("n1", 1, 2, first=4).slots))
    told, _ = steer(cluster(2, FOUR), [runs], exactly(number("j"), 4))
    assert (told["j"].kind, counts(told["j"])) == (Kind.RESIZE, {"n0": 4})


def test_what_its_user_has_asked_for_is_the_reason_to_shrink_a_job() -> None:
    """Two of the four that it holds, since `muster resize` made two its most."""
    for restarts in (False, True):
        asked = job("j", 1, most=2, restarts=restarts)
        runs = replace(running(asked, on("n0", 1, 2, 4, 8)), reshaped=True)
        told, _ = steer(cluster(1, FOUR), [runs], exactly(number("j"), 2))
        assert told["j"].reason.code is Code.SHRUNK_ASKED


def test_a_job_that_must_restart_is_stopped_to_be_changed() -> None:
    runs = running(job("j", 1, most=4, restarts=True), on("n0", 1, 2))
    for wanted in (exactly(number("j"), 4), exactly(number("j"), 1)):
        told, _ = steer(cluster(1, FOUR), [runs], wanted)
        assert (told["j"].kind, told["j"].reason.code) == (Kind.PREEMPT, Code.RESIZED_POLICY)
    # Another batch is taken up without a stop.
    told, _ = steer(cluster(1, FOUR), [runs], exactly(number("j"), 2, batch=64))
    assert (told["j"].kind, told["j"].batch, told["j"].placement) == (Kind.RESIZE, 64, runs.placement)
    told, _ = steer(cluster(1, FOUR), [runs], exactly(number("j"), 2))
    assert not told


def test_a_job_that_must_restart_is_not_stopped_for_what_it_cannot_have() -> None:
    """Four on one node, and there are two free beside its two on n0 only if the other went."""
    asked = job("j", 1, most=4, restarts=True, locality=Locality(Level.NODE))
    stays = [running(job("r", 1), on("n0", 8)), running(job("s", 1), on("n1", 8))]
    told, _ = steer(cluster(2, FOUR), [running(asked, on("n0", 1, 2)), *stays], exactly(number("j"), 4))
    assert not told
    told, _ = steer(cluster(2, FOUR), [running(asked, on("n0", 1, 2)), *stays], exactly(number("j"), 3))
    assert told["j"].kind is Kind.PREEMPT


def test_what_is_not_preemptible_is_neither_shrunk_nor_stopped_nor_moved() -> None:
    fixed = running(job("j", 1, most=4, preemptible=False), on("n0", 1, 2))
    for wanted in (
        exactly(number("j"), 0),
        exactly(number("j"), 1),
        exactly(number("j"), 2, device_type="V100"),
    ):
        told, _ = steer(TYPES, [fixed], wanted)
        assert not told
    told, _ = steer(TYPES, [fixed], exactly(number("j"), 3))
    assert told["j"].kind is Kind.RESIZE
    assert told["j"].placement is not None and fixed.placement is not None
    assert set(fixed.placement.slots) < set(told["j"].placement.slots)


def test_shrinking_that_would_break_a_contract_places_the_rest_anew() -> None:
    """Five need both sockets; four fit on one, and across they would be slower than tolerated. The four
    that would stay are on both: so the job gets four on one socket, keeping those it has there."""
    asked = job(
        "j",
        2,
        most=5,
        locality=Locality(max_slowdown=0.01),
        profile=StepProfile(compute=0.1, gradients=10e9),
    )
    runs = running(asked, on("n0", 1, 2, 16, 32, 4))
    told, _ = steer(cluster(1, node_set(devices=8)), [runs], exactly(number("j"), 4))
    assert told["j"].kind is Kind.RESIZE and told["j"].placement is not None
    assert told["j"].placement.bits() in ({"n0": 0b1111}, {"n0": 0b11110000})


# Growth


def test_growth_goes_beside_what_it_has() -> None:
    told, _ = steer(
        cluster(2, FOUR), [running(job("j", 1, most=8), on("n1", 1))], exactly(number("j"), 3)
    )
    assert counts(told["j"]) == {"n1": 3}


def test_growth_moves_everything_if_that_takes_fewer_nodes() -> None:
    """One on n0 with nothing free beside it; four fit on n1 as a whole."""
    runs = running(job("j", 1, most=4), on("n0", 1))
    stays = running(job("r", 3), on("n0", 2, 4, 8))
    told, _ = steer(cluster(2, FOUR), [runs, stays], exactly(number("j"), 4))
    assert (told["j"].kind, counts(told["j"])) == (Kind.RESIZE, {"n1": 4})


def test_growth_takes_what_there_is_when_nothing_comes() -> None:
    stays = running(job("r", 5), on("n0", 2, 4, 8).with_slots(on("n1", 1, 2, first=3).slots))
    runs = running(job("j", 1, most=8), on("n0", 1))
    told, _ = steer(cluster(2, FOUR), [runs, stays], exactly(number("j"), 8))
    assert sum(counts(told["j"]).values()) == 3


def test_growth_waits_for_what_comes() -> None:
    runs = running(job("j", 1, most=8), on("n0", 1))
    goes = running(job("r", 3), on("n0", 2, 4, 8))
    told, _ = steer(cluster(2, FOUR), [runs, goes], exactly(number("r"), 0), exactly(number("j"), 8))
    assert set(told) == {"r"}


def test_placing_anew_never_counts_on_cores_that_are_still_held() -> None:
    """Each worker takes 1.5 of 4 cores. It holds device 0 and may only be on one socket, where device 1
    is another's; devices 2 and 3 are free, but beside the worker that is still there only one more task
    has cores. So it stays as it is."""
    need = Need(1, 1_500, GB)
    on_socket = job("j", 1, most=2, need=need, locality=Locality(Level.SOCKET))
    runs = running(on_socket, placement(slot("n0", 1, need=need)))
    other = running(job("r", need=Need(1)), placement(slot("n0", 2, need=Need(1))))
    told, _ = steer(cluster(1, node_set(devices=4, cores=4)), [runs, other], exactly(number("j"), 2))
    assert not told
    told, _ = steer(cluster(1, node_set(devices=4, cores=5)), [runs, other], exactly(number("j"), 2))
    assert told["j"].placement is not None
    assert told["j"].placement.bits() == {"n0": 0b1100}


def test_tasks_of_several_devices_grow_without_overlap() -> None:
    """Two devices a task, on 0b11; three tasks need six of the eight."""
    need = Need(2, 1_000, GB)
    runs = running(job("j", 1, most=4, need=need), placement(slot("n0", 0b11, need=need)))
    told, _ = steer(cluster(2, FOUR), [runs], exactly(number("j"), 3))
    assert sum(counts(told["j"]).values()) == 6
    # Its two devices are on both sockets, and nothing is free where it is: 0b0110 stays or all goes.
    split = running(job("j", 1, most=2, need=need), placement(slot("n0", 0b0110, need=need)))
    told, _ = steer(cluster(2, FOUR), [split], exactly(number("j"), 2))
    assert sum(counts(told["j"]).values()) == 4


# Servers


def with_servers(workers: int = 4, servers: int = 3) -> Job:
    need = Need(0, 1_000, GB)
    plain = job("j", 1, most=workers)
    return replace(plain, roles=(*plain.roles, RoleSpec(Role.SERVER, need, 1, 1, servers)))


def served(workers: int, servers: int) -> JobState:
    need = Need(0, 1_000, GB)
    slots = [slot("n0", 1 << i, i) for i in range(workers)]
    slots += [slot("n0", 0, i, role=Role.SERVER, need=need) for i in range(servers)]
    return running(with_servers(), placement(*slots))


@pytest.mark.parametrize(
    ("had", "wanted"),
    [
        ((2, 1), (2, 3)),
        ((4, 1), (2, 2)),
        ((1, 3), (3, 1)),
        ((2, 3), (2, 1)),
        ((1, 1), (4, 3)),
        ((3, 3), (1, 1)),
    ],
)
def test_workers_and_servers_each_come_to_what_the_policy_says(
    had: tuple[int, int], wanted: tuple[int, int]
) -> None:
    told, _ = steer(
        cluster(1, FOUR), [served(*had)], exactly(number("j"), wanted[0], servers=wanted[1])
    )
    placed = told["j"].placement
    assert told["j"].kind is Kind.RESIZE and placed is not None
    assert (placed.count(Role.WORKER), placed.count(Role.SERVER)) == wanted


def test_with_just_what_it_should_have_nothing_happens() -> None:
    told, _ = steer(cluster(1, FOUR), [served(2, 2)], exactly(number("j"), 2, servers=2))
    assert not told


# Batches and types


def test_another_batch_alone_is_a_resize_in_place() -> None:
    runs = running(job("j", 1, most=4), on("n0", 1, 2), batch=32)
    told, _ = steer(cluster(1, FOUR), [runs], exactly(number("j"), 2, batch=64))
    assert (told["j"].kind, told["j"].batch, told["j"].placement) == (Kind.RESIZE, 64, runs.placement)
    told, _ = steer(cluster(1, FOUR), [runs], exactly(number("j"), 2, batch=32))
    assert not told


def test_a_start_on_the_type_the_policy_wants() -> None:
    told, _ = steer(TYPES, [job("j", 2)], exactly(number("j"), 2, device_type="V100"))
    assert counts(told["j"]) == {"n1": 2}


def test_a_move_to_the_type_the_policy_wants() -> None:
    runs = running(job("j", 2), on("n0", 1, 2))
    told, _ = steer(TYPES, [runs], exactly(number("j"), 2, device_type="V100"))
    assert (told["j"].kind, counts(told["j"])) == (Kind.MIGRATE, {"n1": 2})
    assert told["j"].reason.code is Code.MIGRATED_POLICY


def test_a_move_for_which_there_is_no_room_waits() -> None:
    runs, stays = running(job("j", 2), on("n0", 1, 2)), running(job("r", 3), on("n1", 1, 2, 4))
    told, _ = steer(TYPES, [runs, stays], exactly(number("j"), 2, device_type="V100"))
    assert not told


@pytest.mark.parametrize("restarts", [False, True])
def test_jobs_that_are_to_change_places_are_stopped_for_it(restarts: bool) -> None:
    """Both types are full, and each job is to have the other's."""
    states = [
        running(job("a", 4, restarts=restarts), on("n0", 1, 2, 4, 8)),
        running(job("b", 4, restarts=restarts), on("n1", 1, 2, 4, 8)),
    ]
    wanted = exactly(number("a"), 4, device_type="V100"), exactly(number("b"), 4, device_type="A100")
    told, _ = steer(TYPES, states, *wanted)
    assert {decision.kind for decision in told.values()} == {Kind.PREEMPT}
    waiting = [JobState(state.job, Phase.WAITING, 0.0) for state in states]
    told, _ = steer(TYPES, waiting, *wanted)
    assert (counts(told["a"]), counts(told["b"])) == ({"n1": 4}, {"n0": 4})


def test_one_that_waits_for_another_that_cannot_move_is_not_stopped() -> None:
    """a wants what b has, but b wants what r keeps."""
    three = mixed(
        *((1, node_set(n, device_type=t, devices=4)) for n, t in (("a", "A"), ("b", "B"), ("c", "C")))
    )
    states = [
        running(job(name, 4), on(node, 1, 2, 4, 8))
        for name, node in (("a", "n0"), ("b", "n1"), ("r", "n2"))
    ]
    told, _ = steer(
        three,
        states,
        exactly(number("a"), 4, device_type="B"),
        exactly(number("b"), 4, device_type="C"),
    )
    assert not told


def test_a_type_on_which_the_contract_can_never_be_kept_is_not_waited_for() -> None:
    """Two behind one switch: n0 has pairs of them, n1 none. The policy knows nothing of contracts."""
    pairs = mixed((1, node_set("a", devices=8)), (1, node_set("b", device_type="V100", devices=4)))
    asked = job("j", 2, locality=Locality(Level.SWITCH))
    told, _ = steer(pairs, [asked], exactly(number("j"), 2, device_type="V100"))
    assert (told["j"].kind, counts(told["j"])) == (Kind.START, {"n0": 2})
    runs = running(asked, on("n0", 1, 2))
    told, _ = steer(pairs, [runs], exactly(number("j"), 2, device_type="V100"))
    assert not told


# Pools


def two_pools(**quota: Any) -> PoolTree:
    return PoolTree({"p": Pool("p", quotas={"A100": Quota(**quota)}), "q": Pool("q")})


def test_a_limit_binds_whatever_the_policy_says() -> None:
    told, _ = steer(
        cluster(2, FOUR),
        [job("j", 1, most=8, pool="p")],
        exactly(number("j"), 6),
        pools=two_pools(limit=4),
    )
    assert sum(counts(told["j"]).values()) == 4
    runs = running(job("j", 1, most=8, pool="p"), on("n0", 1, 2, 4, 8))
    told, _ = steer(cluster(2, FOUR), [runs], exactly(number("j"), 6), pools=two_pools(limit=4))
    assert not told


def test_at_its_limit_a_job_may_still_shrink_and_change_its_batch() -> None:
    runs = running(job("j", 1, most=8, pool="p"), on("n0", 1, 2, 4, 8))
    pools = two_pools(limit=4)
    told, _ = steer(cluster(2, FOUR), [runs], exactly(number("j"), 2), pools=pools)
    assert counts(told["j"]) == {"n0": 2}
    told, _ = steer(cluster(2, FOUR), [runs], exactly(number("j"), 4, batch=8), pools=pools)
    assert told["j"].batch == 8


def test_a_reservation_binds_what_is_not_preemptible() -> None:
    asked = job("j", 1, most=8, pool="p", preemptible=False)
    told, _ = steer(cluster(2, FOUR), [asked], exactly(number("j"), 6), pools=two_pools(reservation=3))
    assert sum(counts(told["j"]).values()) == 3


# What no pool's own jobs can use


def _two_pools() -> PoolTree:
    quotas = {"a": Quota(reservation=3), "b": Quota(reservation=1)}
    return PoolTree({name: Pool(name, "cluster", {"A100": quota}) for name, quota in quotas.items()})


def test_the_rest_of_an_entitlement_that_fits_no_gang_is_lent() -> None:
    """Pool a has one of its three left, too little for its gang of two; b has used its own."""
    jobs: list[Job | JobState] = [
        running(job("a1", 2, pool="a"), on("n0", 1, 2)),
        running(job("b1", 1, pool="b"), on("n0", 4)),
        job("a2", 2, pool="a"),
        job("b2", 1, pool="b"),
    ]
    keep = [exactly(number("a1"), 2), exactly(number("b1"), 1)]
    nothing = [exactly(number("a2"), 0), exactly(number("b2"), 0)]
    told, _ = steer(cluster(1, FOUR), jobs, *keep, *nothing, pools=_two_pools())
    assert (told["b2"].kind, told["b2"].reason.code) == (Kind.START, Code.STARTED_BORROWING)
    assert told["a2"].kind is Kind.WAIT


def test_nothing_is_lent_while_more_comes_free() -> None:
    """The gang of pool a may start with what is idle and what comes."""
    stops = running(job("b1", 1, pool="b"), on("n0", 4), phase=Phase.PREEMPTING)
    jobs: list[Job | JobState] = [
        running(job("a1", 2, pool="a"), on("n0", 1, 2)),
        stops,
        job("a2", 2, pool="a"),
    ]
    wanted = [exactly(number("a1"), 2), exactly(number("a2"), 0), exactly(number("b2"), 0)]
    told, _ = steer(cluster(1, FOUR), [*jobs, job("b2", 1, pool="b")], *wanted, pools=_two_pools())
    assert told["b2"].kind is Kind.WAIT


def test_what_is_free_goes_to_the_pool_it_belongs_to_before_one_that_would_borrow_it() -> None:
    """Pool a has its four devices. Its policy would change jobs, but the stop serves nobody: pool b's
    gang needs a node of its own. With the free node, pool a would have twice its own, and give back a
    job as soon as b asks."""
    at_two = placement(slot("n0", 1), slot("n0", 2, 1), slot("n1", 1, 2), slot("n1", 2, 3))
    jobs: list[Job | JobState] = [
        running(job("a1", 4, pool="a"), at_two),
        running(job("b1", 2, pool="b"), on("n0", 4, 8)),
        running(job("b2", 2, pool="b"), on("n1", 4, 8)),
        job("a2", 4, pool="a"),
        job("b3", 4, pool="b", locality=Locality(Level.NODE)),
    ]
    wanted = {"a2": 4, "a1": 0, "b1": 2, "b2": 2, "b3": 4}
    quotas = {"a": Quota(reservation=4), "b": Quota(reservation=8)}
    pools = PoolTree({name: Pool(name, "cluster", {"A100": quota}) for name, quota in quotas.items()})
    targets = [exactly(number(name), most, device_type="A100") for name, most in wanted.items()]
    told, _ = steer(cluster(3, FOUR), jobs, *targets, pools=pools)
    assert (told["b3"].kind, counts(told["b3"])) == (Kind.START, {"n2": 4})
