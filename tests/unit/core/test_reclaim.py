"""Taking back what is borrowed: from whom, how much, and from whom not."""

from dataclasses import replace

import pytest

from muster.model.decision import Kind
from muster.model.event import NodeLost, Preempted, Resized
from muster.model.job import Job, Locality, Need, Role, RoleSpec
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.reason import Code
from muster.model.topology import Level
from muster.model.view import Phase, View
from muster.policy.base import Shares
from muster.policy.published.fifo import Fifo
from tests.builders import cluster, job, mixed, node_set, placement, running, view
from tests.numbers import number
from tests.world import World, flat, on

NODE = Locality(Level.NODE)
HALVES = flat(a=Quota(reservation=8), b=Quota(reservation=8))


def tree(**pools: tuple[str, Quota]) -> PoolTree:
    return PoolTree({n: Pool(n, above, {"A100": quota}) for n, (above, quota) in pools.items()})


def test_growth_is_shrunk_before_any_gang_is_preempted() -> None:
    grown = on(job("grown", 2, most=8, pool="b"), "n0", 0xFF)
    gang = on(job("gang", 8, pool="b"), "n1", 0xFF, started=99.0)
    world = World(view(cluster(2), [grown, gang, job("asks", 4, pool="a")], HALVES), 100.0)
    frame = world.cycle()
    assert frame.reason("grown").code is Code.SHRUNK
    assert not frame.of(Kind.PREEMPT)
    frame = world.settle()
    assert frame.reason("asks").code is Code.STARTED_PROMISED


def test_nobody_is_shrunk_below_its_least_allocation() -> None:
    grown = on(job("grown", 6, most=8, pool="b"), "n0", 0xFF)
    owned = flat(a=Quota(reservation=8), b=Quota())
    frame = World(view(cluster(1), [grown, job("asks", 4, pool="a")], owned), 100.0).cycle()
    assert frame.names(Kind.PREEMPT) == {"grown"}


def test_only_as_many_workers_leave_as_are_asked() -> None:
    grown = on(job("grown", 1, most=8), "n0", 0xFF)
    world = World(view(cluster(1), [grown, job("asks", 3)]), 100.0)
    world.cycle()
    world.settle()
    assert world.view.jobs[number("grown")].placement is not None
    assert sum(bits.bit_count() for bits in world.bits("grown").values()) == 5


def test_a_gang_that_only_uses_what_is_lent_pushes_nobody_below_its_entitlement() -> None:
    """Entitled are 4 each; the borrower's one gang is 6, so for a soft claim it stays."""
    shares = flat(a=Quota(), b=Quota())
    large = on(job("large", 6, pool="b"), "n0", 0x3F)
    frame = World(view(cluster(1), [large, job("asks", 4, pool="a")], shares), 100.0).cycle()
    assert not frame.of(Kind.PREEMPT)
    owned = flat(a=Quota(reservation=4), b=Quota())
    frame = World(view(cluster(1), [large, job("asks", 4, pool="a")], owned), 100.0).cycle()
    assert frame.names(Kind.PREEMPT) == {"large"}


def test_a_soft_claim_takes_what_is_above_the_entitlement() -> None:
    shares = flat(a=Quota(), b=Quota())
    states = [on(job(f"b{i}", 2, pool="b"), "n0", 0b11 << 2 * i) for i in range(4)]
    frame = World(view(cluster(1), [*states, job("asks", 4, pool="a")], shares), 100.0).cycle()
    assert len(frame.of(Kind.PREEMPT)) == 2


def test_what_is_not_preemptible_is_never_preempted() -> None:
    fixed = on(job("fixed", 8, pool="b", preemptible=False), "n0", 0xFF)
    world = World(view(cluster(1), [fixed, job("asks", 4, pool="a")], HALVES), 100.0)
    frame = world.cycle()
    assert not frame.of(Kind.PREEMPT)
    assert frame.reason("asks").code in (Code.WAITING_DEVICES, Code.WAITING_QUOTA)


def test_a_pool_takes_its_reservation_back_from_a_sibling_that_filled_their_parents_limit() -> None:
    pools = tree(
        lab=("cluster", Quota(reservation=8, limit=8)),
        a=("lab", Quota(reservation=4)),
        b=("lab", Quota(reservation=4)),
    )
    states = [on(job(f"b{i}", 4, pool="b"), "n0", 0x0F << 4 * i) for i in range(2)]
    world = World(view(cluster(2), [*states, job("asks", 4, pool="a")], pools), 100.0)
    assert len(world.cycle().of(Kind.PREEMPT)) == 1
    world.settle()
    assert world.phase("asks") is Phase.STARTING


def test_a_pool_takes_its_reservation_back_from_a_sibling_that_filled_their_parents_entitlement() -> (
    None
):
    pools = tree(
        lab=("cluster", Quota(reservation=8)),
        a=("lab", Quota(reservation=4)),
        b=("lab", Quota(reservation=4)),
        other=("cluster", Quota(reservation=8)),
    )
    states = [on(job(f"b{i}", 4, pool="b"), "n0", 0x0F << 4 * i) for i in range(2)]
    other = on(job("other", 8, pool="other"), "n1", 0xFF)
    world = World(view(cluster(2), [*states, other, job("asks", 4, pool="a")], pools), 100.0)
    frame = world.cycle()
    assert len(frame.of(Kind.PREEMPT)) == 1
    assert "other" not in frame.names(Kind.PREEMPT)


def test_a_pool_below_its_own_entitlement_pays_nothing_for_a_sibling_that_borrows() -> None:
    """`lab` as a whole is above its entitlement, by what b has borrowed; c has only its own."""
    pools = tree(
        lab=("cluster", Quota(reservation=4)),
        b=("lab", Quota()),
        c=("lab", Quota(reservation=4)),
        owner=("cluster", Quota(reservation=4)),
    )
    cheap = on(job("cheap", 4, pool="c"), "n0", 0x0F, started=100.0)
    dear = on(job("dear", 4, pool="b"), "n0", 0xF0, started=0.0)
    frame = World(view(cluster(1), [cheap, dear, job("asks", 4, pool="owner")], pools), 100.0).cycle()
    assert frame.names(Kind.PREEMPT) == {"dear"}


def test_its_own_growth_and_others_gangs_make_room_together() -> None:
    """a is at its limit by its own growth of 2, and b has borrowed 2 of those the gang needs."""
    mine = on(job("mine", 2, most=4, pool="a"), "n0", 0x0F)
    theirs = [on(job(f"theirs{i}", 2, pool="b"), "n0", 0x30 << 2 * i) for i in range(2)]
    owned = flat(a=Quota(reservation=6, limit=6), b=Quota())
    world = World(view(cluster(1), [mine, *theirs, job("asks", 4, pool="a")], owned), 100.0)
    frame = world.cycle()
    assert frame.reason("mine").code is Code.SHRUNK
    assert len(frame.of(Kind.PREEMPT)) == 1
    assert world.settle().reason("asks").code is Code.STARTED_PROMISED


def test_only_growth_that_is_not_preemptible_makes_room_in_a_reservation() -> None:
    pools = flat(a=Quota(reservation=4))
    fixed = on(job("fixed", 2, most=4, preemptible=False, pool="a"), "n0", 0x0F)
    loose = on(job("loose", 1, most=3, pool="a"), "n0", 0x70)
    asks = job("asks", 2, preemptible=False, pool="a")
    frame = World(view(cluster(1), [fixed, loose, asks], pools), 100.0).cycle()
    assert frame.names(Kind.RESIZE) == {"fixed"}
    frame = World(view(cluster(1), [loose, replace(fixed.job, name="f2"), asks], pools), 100.0).cycle()
    assert not frame.of(Kind.RESIZE)


def test_one_that_is_not_preemptible_waits_until_the_shrunk_one_has_let_go() -> None:
    """Devices are free elsewhere, but the reservation is in use until the job is smaller."""
    pools = flat(a=Quota(reservation=8))
    fixed = on(job("fixed", 4, most=8, preemptible=False, pool="a"), "n0", 0xFF)
    world = World(view(cluster(2), [fixed, job("asks", 4, preemptible=False, pool="a")], pools), 100.0)
    assert world.cycle().names(Kind.RESIZE) == {"fixed"}
    assert world.cycle(1.0).reason("asks").code is Code.WAITING_RECLAIM
    assert world.settle().names(Kind.START) == {"asks"}


def test_a_promise_stands_while_the_victims_take_their_time_to_stop() -> None:
    """However long it takes, nobody else is preempted for the same gang."""
    states = [on(job(f"b{i}", 4, pool="b"), "n0", 0x0F << 4 * i) for i in range(2)]
    owned = flat(a=Quota(reservation=8), b=Quota())
    world = World(view(cluster(1), [*states, job("asks", 4, pool="a")], owned), 100.0)
    (victim,) = world.cycle().names(Kind.PREEMPT)
    for _ in range(5):
        frame = world.cycle(600.0)
        assert not frame.of(Kind.PREEMPT)
        assert frame.reason("asks").code is Code.WAITING_RECLAIM
    world.happen(Preempted(number(victim), world.view.jobs[number(victim)].generation, world.now))
    assert world.cycle().names(Kind.START) == {"asks"}


def test_what_one_gang_leaves_over_is_there_for_the_next() -> None:
    """One gang of eight is stopped for eight jobs of one device, not one for each of the first two."""
    states = [on(job(f"b{n}", 8, pool="b"), f"n{n}", 0xFF) for n in range(2)]
    owned = flat(a=Quota(reservation=16), b=Quota())
    asks = [job(f"a{i}", pool="a") for i in range(8)]
    world = World(view(cluster(2), [*states, *asks], owned), 100.0)
    frame = world.cycle()
    assert len(frame.of(Kind.PREEMPT)) == 1
    assert {frame.reason(f"a{i}").code for i in range(8)} == {Code.WAITING_RECLAIM}
    assert world.settle().names(Kind.START) >= {f"a{i}" for i in range(8)}


def test_nor_is_anybody_stopped_for_one_who_comes_while_enough_is_coming_free() -> None:
    states = [on(job(f"b{n}", 8, pool="b"), f"n{n}", 0xFF) for n in range(2)]
    owned = flat(a=Quota(reservation=16), b=Quota())
    world = World(view(cluster(2), [*states, job("first", 2, pool="a")], owned), 100.0)
    world.cycle()
    world.submit(job("second", 6, pool="a"))
    frame = world.cycle(1.0)
    assert not frame.of(Kind.PREEMPT)
    assert world.settle().names(Kind.START) == {"first", "second"}


def test_a_gang_that_starts_may_be_preempted_before_it_runs() -> None:
    world = World(view(cluster(1), [], flat(a=Quota(reservation=8), b=Quota())))
    world.submit(job("guest", 8, pool="b"))
    world.cycle()
    world.submit(job("asks", 8, pool="a"))
    frame = world.cycle(1.0)
    assert frame.names(Kind.PREEMPT) == {"guest"}
    assert world.settle().names(Kind.START) == {"asks"}


def test_a_job_that_is_being_resized_is_waited_for() -> None:
    grown = on(job("grown", 2, most=8, pool="b"), "n0", 0x0F)
    world = World(view(cluster(1), [grown], flat(a=Quota(reservation=8), b=Quota())))
    assert world.cycle().reason("grown").code is Code.GROWN
    world.submit(job("asks", 8, pool="a"))
    assert not world.cycle(1.0).of(Kind.PREEMPT)
    state = world.view.jobs[number("grown")]
    world.happen(Resized(number("grown"), state.generation, world.now))
    assert world.cycle(1.0).names(Kind.PREEMPT) == {"grown"}


def test_the_stopped_borrower_waits_and_does_not_take_its_devices_back() -> None:
    guest = on(job("guest", 8, pool="b"), "n0", 0xFF)
    owned = flat(a=Quota(reservation=8), b=Quota())
    world = World(view(cluster(1), [guest, job("asks", 8, pool="a")], owned), 100.0)
    world.cycle()
    frame = world.settle()
    assert frame.names(Kind.START) == {"asks"}
    assert frame.decision("guest").kind is Kind.WAIT
    for _ in range(3):
        assert not world.settle(700.0).of(Kind.START, Kind.PREEMPT)


def test_where_a_contract_needs_it_whatever_is_not_reserved_gives_way_to_what_is() -> None:
    """By numbers there is room for the owner, and nobody has more than its due; but on no node."""
    states = [on(job(f"g{n}", 1, pool="guest", pause=1e6), f"n{n}", 0b1) for n in range(2)]
    owned = flat(owner=Quota(reservation=16), guest=Quota())
    asks = job("asks", 8, pool="owner", locality=NODE)
    world = World(view(cluster(2), [*states, asks], owned), 100.0)
    assert len(world.cycle().of(Kind.PREEMPT)) == 1
    assert "asks" in world.settle().names(Kind.START)


def test_what_is_reserved_does_not_give_way_to_what_is() -> None:
    states = [on(job(f"g{n}", 1, pool="b", pause=1e6), f"n{n}", 0b1) for n in range(2)]
    asks = job("asks", 8, pool="a", locality=NODE)
    frame = World(view(cluster(2), [*states, asks], HALVES), 100.0).cycle()
    assert not frame.of(Kind.PREEMPT)
    assert frame.reason("asks").code is Code.WAITING_FRAGMENTED


def test_a_job_that_may_have_several_types_of_one_generation_takes_back_either() -> None:
    other = node_set("b", device_type="A30")
    there = mixed((1, node_set()), (1, other))
    pools = PoolTree(
        {
            "a": Pool("a", quotas={"A100": Quota(reservation=8)}),
            "b": Pool("b"),
        }
    )
    states = [on(job(f"b{n}", 8, pool="b"), f"n{n}", 0xFF) for n in range(2)]
    asks = job("asks", 8, pool="a", device_types=("A100", "A30"))
    frame = World(view(there, [*states, asks], pools), 100.0).cycle()
    assert frame.names(Kind.PREEMPT) == {"b0"}


def test_a_shrunk_job_keeps_the_slowdown_it_tolerates() -> None:
    """On two nodes, 4 and 1: without one of the four the best placement of four is one node."""
    spread = running(
        job("spread", 1, most=16, pool="b", locality=Locality(max_slowdown=0.05)),
        placement(*((node, 1 << bit) for node in ("n0", "n1") for bit in range(8))),
    )
    pools = flat(a=Quota(reservation=16), b=Quota())
    world = World(view(cluster(2), [spread, job("asks", 8, pool="a")], pools), 100.0)
    world.cycle()  # `check` raises if the contract were broken
    world.settle()
    assert world.phase("asks") is Phase.STARTING


class Partial(Fifo):
    """A policy that only speaks of waiting jobs."""

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Nothing for anybody who runs."""
        whole = super().allocate(view, entitlements, now, memory)
        waiting = (a for a in whole.allocations if view.jobs[a.job].phase is Phase.WAITING)
        return Shares(tuple(waiting))


def test_a_running_job_that_the_policy_leaves_out_keeps_what_it_has() -> None:
    states = [on(job("j", 2, most=8), "n0", 0x0F)]
    frame = World(view(cluster(1), [*states, job("asks", 2)]), policy=Partial()).cycle()
    assert frame.reason("j").code is Code.CONTINUES
    assert frame.names(Kind.START) == {"asks"}


@pytest.mark.parametrize("most", [8, 4])
def test_but_what_is_asked_back_is_taken_from_it_all_the_same(most: int) -> None:
    states = [on(job("j", 4, gang=2, most=most, pool="b"), "n0", 0x0F)]
    owned = flat(a=Quota(reservation=8), b=Quota())
    asks = job("asks", 6, pool="a")
    world = World(view(cluster(1), [*states, asks], owned), 100.0, policy=Partial())
    assert world.cycle().reason("j").code is Code.SHRUNK
    assert world.settle().names(Kind.START) == {"asks"}


def test_servers_are_no_growth() -> None:
    spec = RoleSpec(Role.SERVER, Need(0, 1_000, 0), 1, 1, 4)
    asked = job("ps", 1, most=4)
    asked = Job(asked.name, roles=(*asked.roles, spec))
    world = World(view(cluster(1), [asked]))
    world.settle()
    world.complete()
    world.submit(job("asks", 6))
    frame = world.cycle()
    placed = frame.decision("ps").placement
    assert placed is not None
    assert placed.count(Role.WORKER) == 2
    assert placed.count(Role.SERVER) == 4


def test_a_promise_on_a_node_that_is_lost_is_looked_for_anew() -> None:
    states = [on(job(f"b{n}", 8, pool="b"), f"n{n}", 0xFF) for n in range(2)]
    owned = flat(a=Quota(reservation=8), b=Quota())
    world = World(view(cluster(2), [*states, job("asks", 8, pool="a")], owned), 100.0)
    (first,) = world.cycle().names(Kind.PREEMPT)
    (node,) = world.memory.promises[0].placement.nodes()
    world.happen(NodeLost(node, world.now))
    (second,) = world.cycle(1.0).names(Kind.PREEMPT)
    assert {first, second} == {"b0", "b1"}
