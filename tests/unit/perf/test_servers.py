"""Parameter servers: what each link carries, by the formulas of the notes."""

from dataclasses import replace

import pytest

from muster.model.cluster import Cluster
from muster.model.placement import Placement
from muster.model.plan import Plan, Sync
from muster.model.topology import Link
from muster.perf.servers import both_at_once, holdings, push_and_pull
from muster.perf.traffic import Load, SyncStage, at_once
from muster.perf.wires import Wire, Wiring
from tests.builders import cluster, mixed, node_set, placement
from tests.unit.perf.shapes import last_on, on, plan, server, shape_of, wires_of

THREE = placement(("n0", 0b1), ("n1", 0b1), ("n2", 0b1))
SHARES = (0.5, 0.3, 0.2)
SHARDED = plan(Sync.SHARDED, owners=SHARES)


def halves(there: Cluster, how: Plan, placed: Placement) -> tuple[SyncStage, SyncStage]:
    """Push and pull of a plan on a placement."""
    return push_and_pull(how, shape_of(there, placed), Wiring(there))


def near(out: float, into: float) -> Load:
    """A load up to rounding."""
    return Load(pytest.approx(out), pytest.approx(into))  # type: ignore[arg-type]


def test_a_worker_that_owns_a_share_carries_the_whole_and_n_minus_two_shares_each_way() -> None:
    # The notes' (S + (n-2) O_j) / bw_j with n = 3: 1 + O_j, out and in, over push and pull.
    push, pull = halves(cluster(3), SHARDED, THREE)
    both = on(at_once([push, pull]), Wire.NIC)
    assert both == {(j, 0): near(1 + SHARES[j], 1 + SHARES[j]) for j in range(3)}


def test_a_push_leaves_with_what_others_own_and_brings_what_others_computed() -> None:
    push, pull = halves(cluster(3), SHARDED, THREE)
    for j, share in enumerate(SHARES):
        assert on(push, Wire.NIC)[j, 0] == near(1 - share, 2 * share)
        assert on(pull, Wire.NIC)[j, 0] == near(2 * share, 1 - share)


def test_a_servers_card_carries_n_shares_and_a_workers_the_whole_once() -> None:
    # The notes' n O_j / bw_j: three workers, servers with 3/4 and 1/4.
    how = plan(Sync.DEDICATED, owners=(0.75, 0.25))
    placed = THREE.with_slots((server("n3", 0), server("n4", 1)))
    push, pull = halves(cluster(5), how, placed)
    servers = {(3, 0): near(0.0, 3 * 0.75), (4, 0): near(0.0, 3 * 0.25)}
    assert on(push, Wire.NIC) == dict.fromkeys([(0, 0), (1, 0), (2, 0)], near(1.0, 0.0)) | servers
    assert on(pull, Wire.NIC)[3, 0] == near(3 * 0.75, 0.0)
    assert on(pull, Wire.NIC)[0, 0] == near(0.0, 1.0)


def test_without_shares_owners_hold_even_parts() -> None:
    shape = shape_of(cluster(5), THREE.with_slots((server("n3", 0), server("n4", 1))))
    assert holdings(plan(Sync.DEDICATED), shape).shares == (0.5, 0.5)
    assert holdings(plan(Sync.SHARDED), shape).shares == pytest.approx((1 / 3, 1 / 3, 1 / 3))


def test_a_server_beside_a_worker_spares_the_card_their_common_part() -> None:
    # Node n0 has one of two workers and all parameters: its own push stays inside.
    placed = placement(("n0", 0b1), ("n1", 0b1), server("n0"))
    push, _ = halves(cluster(2), plan(Sync.DEDICATED), placed)
    assert on(push, Wire.NIC) == {(0, 0): near(0.0, 1.0), (1, 0): near(1.0, 0.0)}
    # Every process still passes its own port: worker, server on n0 (seats 0 and 1), worker on n1.
    assert on(push, Wire.HOST) == {(0, 0): near(1, 0), (0, 1): near(0, 2), (1, 0): near(1, 0)}


def test_what_leaves_a_rack_is_its_workers_times_what_is_owned_outside() -> None:
    # r0 = {n0, n1} with 2 of 3 workers and 0.8 of the parameters: out 2 * 0.2, in 1 * 0.8.
    push, pull = halves(cluster(4, racks=2), SHARDED, THREE)
    assert on(push, Wire.RACK) == {(0, 0): near(0.4, 0.8), (1, 0): near(0.8, 0.4)}
    assert on(pull, Wire.RACK) == {(0, 0): near(0.8, 0.4), (1, 0): near(0.4, 0.8)}
    assert Wire.DOMAIN not in wires_of(push)


def test_domains_follow_the_same_formula() -> None:
    push, _ = halves(cluster(4, racks=2, domains=2), SHARDED, THREE)
    assert on(push, Wire.DOMAIN) == {(0, 0): near(0.4, 0.8), (1, 0): near(0.8, 0.4)}


def test_inside_one_rack_its_uplink_is_idle() -> None:
    push, pull = halves(cluster(4), SHARDED, THREE)
    assert Wire.RACK not in wires_of(push) | wires_of(pull)


def test_inside_one_node_its_card_is_idle() -> None:
    placed = placement(("n0", 0b1), ("n0", 0b10))
    push, _ = halves(cluster(1), plan(Sync.SHARDED), placed)
    assert Wire.NIC not in wires_of(push)
    assert on(push, Wire.HOST) == {(0, 0): near(0.5, 0.5), (0, 1): near(0.5, 0.5)}


def test_gradients_leave_a_workers_first_device_for_memory_and_parameters_come_back() -> None:
    push, pull = halves(cluster(2), plan(Sync.SHARDED), placement(("n0", 0b1100), ("n1", 0b1)))
    assert on(push, Wire.LANE) == {(0, 0b0100): Load(1.0, 0.0), (1, 0b0001): Load(1.0, 0.0)}
    assert on(pull, Wire.LANE) == {(0, 0b0100): Load(0.0, 1.0), (1, 0b0001): Load(0.0, 1.0)}


def test_two_workers_under_a_switch_share_its_uplink_to_memory() -> None:
    push, _ = halves(cluster(1), plan(Sync.SHARDED), placement(("n0", 0b01), ("n0", 0b10)))
    assert on(push, Wire.SWITCH) == {(0, 0b11): Load(2.0, 0.0)}


def test_when_all_is_sent_the_last_chunk_of_every_other_owner_still_comes_in() -> None:
    # Each of three has sent what the other two own, and waits for one chunk of each of them.
    push, pull = halves(cluster(3), SHARDED, THREE)
    assert last_on(push, Wire.NIC) == last_on(pull, Wire.NIC) == {}
    there = cluster(3)
    both = both_at_once(SHARDED, shape_of(there, THREE), Wiring(there))
    for j, share in enumerate(SHARES):
        sent, chunks = last_on(both, Wire.NIC)[j, 0]
        assert chunks == 2
        assert sent == pytest.approx(1 - share)
    assert last_on(both, Wire.NIC) == last_on(both, Wire.HOST)
    assert both.messages == 2
    for place, load in at_once([push, pull]).loads.items():
        assert both.loads[place] == pytest.approx(load)


def test_who_owns_nothing_sends_no_last_chunk() -> None:
    how = plan(Sync.SHARDED, owners=(1.0, 0.0, 0.0))
    shape = shape_of(cluster(3), THREE)
    both = both_at_once(how, shape, Wiring(cluster(3)))
    assert last_on(both, Wire.NIC) == {(1, 0): (1.0, 1), (2, 0): (1.0, 1)}


def test_latency_is_that_of_two_processes_and_the_widest_level_between_them() -> None:
    one, _ = halves(cluster(1), plan(Sync.SHARDED), placement(("n0", 0b1), ("n0", 0b10)))
    rack, _ = halves(cluster(3), SHARDED, THREE)
    racks, _ = halves(cluster(4, racks=2), SHARDED, THREE)
    assert one.messages == 1
    assert one.latency == pytest.approx(20e-6)
    assert rack.latency == pytest.approx(20e-6 + 5e-6 + 5e-6)
    assert racks.latency == pytest.approx(20e-6 + 5e-6 + 10e-6)


def test_the_card_that_answers_last_counts_wherever_its_node_stands() -> None:
    late = replace(node_set("late"), nic=Link(10e9, 500e-6))
    there = mixed((1, node_set()), (1, late), (1, node_set()))
    push, _ = halves(there, SHARDED, THREE)
    assert push.latency == pytest.approx(20e-6 + 500e-6 + 5e-6)


@pytest.mark.parametrize("shares", [(1.0, 0.0, 0.0), (1 / 3, 1 / 3, 1 / 3), SHARES])
def test_what_leaves_somewhere_enters_somewhere(shares: tuple[float, ...]) -> None:
    push, pull = halves(cluster(3), plan(Sync.SHARDED, owners=shares), THREE)
    for stage in (push, pull):
        cards = on(stage, Wire.NIC).values()
        assert sum(load.out for load in cards) == pytest.approx(sum(load.into for load in cards))
        assert sum(load.out for load in cards) == pytest.approx(2.0)  # 3 workers, 1 - 1/3 on average
