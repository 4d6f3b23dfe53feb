"""Rings on small placements, every hop by hand."""

from dataclasses import replace

import pytest

from muster.model.cluster import Cluster
from muster.model.placement import Placement
from muster.perf.costs import price
from muster.perf.rings import hierarchical, inside_tasks, ranks_of, ring
from muster.perf.traffic import IDLE, Load, SyncStage
from muster.perf.wires import Wire, Wiring, prior
from tests.builders import cluster, placement
from tests.unit.model.shapes import QUADS
from tests.unit.perf.shapes import cpu_worker, on, server, shape_of, wires_of


def ring_of(there: Cluster, placed: Placement) -> SyncStage:
    """The ring over all devices of a placement."""
    shape = shape_of(there, placed)
    return ring(ranks_of(shape), shape, Wiring(there))


def per_byte(there: Cluster, *stages: SyncStage) -> float:
    """Seconds for each byte of gradients on the rated links."""
    return price(stages, lambda place: prior(there, place[0]).bandwidth).per_byte


def test_one_device_has_nothing_to_send() -> None:
    assert ring_of(cluster(1), placement(("n0", 0b1))) is IDLE


def test_each_hop_carries_twice_n_minus_one_nths_in_messages_that_follow_each_other() -> None:
    # Devices 0 to 3 are under two switches of a socket; 3 -> 0 closes the ring: 2 * 3/4 = 1.5.
    stage = ring_of(cluster(1), placement(("n0", 0b1111)))
    lanes = {(0, 1 << device): Load(1.5, 1.5) for device in range(4)}
    assert on(stage, Wire.LANE) == lanes
    assert on(stage, Wire.SWITCH) == {(0, 0b0011): Load(1.5, 1.5), (0, 0b1100): Load(1.5, 1.5)}
    assert wires_of(stage) == {Wire.LANE, Wire.SWITCH}
    assert (stage.messages, stage.latency) == (2 * 3, 2e-6)


def test_a_whole_node_crosses_between_its_sockets_once_each_way() -> None:
    stage = ring_of(cluster(1), placement(("n0", 0xFF)))
    share = 2 * 7 / 8
    assert on(stage, Wire.SOCKET) == {(0, 0x0F): Load(share, share), (0, 0xF0): Load(share, share)}
    assert (stage.messages, stage.latency) == (14, 3e-6)


def test_in_an_nvlink_group_no_switch_is_used() -> None:
    stage = ring_of(cluster(1, QUADS), placement(("n0", 0b1111)))
    assert wires_of(stage) == {Wire.NVLINK}


def test_a_node_is_left_once_and_entered_once_whatever_the_order_of_its_tasks() -> None:
    # Four devices: 1.5. The tasks alternate between the nodes, the ring does not.
    there = cluster(2)
    tasks = placement(("n0", 0b01), ("n1", 0b01), ("n0", 0b10), ("n1", 0b10))
    stage = ring_of(there, tasks)
    assert on(stage, Wire.NIC) == {(0, 0): Load(1.5, 1.5), (1, 0): Load(1.5, 1.5)}
    assert stage.latency == pytest.approx(10e-6)
    assert per_byte(there, stage) == pytest.approx(1.5 / 10e9)


def test_a_rack_is_left_once_even_when_names_alternate_between_racks() -> None:
    there = cluster(4)
    racks = dict(zip(("n0", "n1", "n2", "n3"), ("x", "y", "x", "y"), strict=True))
    there = replace(there, nodes=tuple(replace(n, rack=racks[n.name]) for n in there.nodes))
    stage = ring_of(there, placement(*((name, 0b1) for name in racks)))
    assert on(stage, Wire.RACK) == {(0, 0): Load(1.5, 1.5), (1, 0): Load(1.5, 1.5)}
    assert stage.latency == pytest.approx(15e-6)
    assert per_byte(there, stage) == pytest.approx(1.5 / 5e9)


def test_two_domains_add_their_uplinks() -> None:
    there = cluster(2, racks=2, domains=2)
    stage = ring_of(there, placement(("n0", 0b1), ("n1", 0b1)))
    for wire in (Wire.NIC, Wire.RACK, Wire.DOMAIN):
        assert on(stage, wire) == {(0, 0): Load(1.0, 1.0), (1, 0): Load(1.0, 1.0)}
    assert stage.latency == pytest.approx(25e-6)
    assert per_byte(there, stage) == pytest.approx(1.0 / 2e9)


def test_racks_of_one_name_in_two_domains_are_two() -> None:
    there = cluster(2, racks=2, domains=2)
    there = replace(there, nodes=tuple(replace(node, rack="r") for node in there.nodes))
    assert set(on(ring_of(there, placement(("n0", 1), ("n1", 1))), Wire.RACK)) == {(0, 0), (1, 0)}


def test_workers_without_devices_send_through_ports_of_their_own() -> None:
    stage = ring_of(cluster(1), placement(cpu_worker("n0", 0), cpu_worker("n0", 1)))
    assert on(stage, Wire.HOST) == {(0, 0): Load(1.0, 1.0), (0, 1): Load(1.0, 1.0)}
    assert wires_of(stage) == {Wire.HOST}
    assert stage.latency == pytest.approx(20e-6)  # half of it at each end


def test_and_through_the_card_to_another_node() -> None:
    stage = ring_of(cluster(2), placement(cpu_worker("n0", 0), cpu_worker("n1", 1)))
    assert wires_of(stage) == {Wire.HOST, Wire.NIC}
    assert stage.latency == pytest.approx(20e-6 + 10e-6)


def test_servers_are_no_members_of_a_ring() -> None:
    placed = placement(("n0", 0b1), ("n1", 0b1), server("n2"))
    shape = shape_of(cluster(3), placed)
    assert [(rank.host, rank.device) for rank in ranks_of(shape)] == [(0, 0), (1, 0)]


def test_hierarchical_is_rings_inside_then_one_over_the_nodes_then_chains_back() -> None:
    there = cluster(2)
    inside, over, back = hierarchical(
        shape_of(there, placement(("n0", 0b11), ("n1", 0b11))), Wiring(there)
    )
    each = [(host, 1 << device) for host in (0, 1) for device in (0, 1)]
    # Inside: two devices, 2 * 1/2 = 1 over each lane, both nodes at once.
    assert on(inside, Wire.LANE) == dict.fromkeys(each, Load(1.0, 1.0))
    assert wires_of(inside) == {Wire.LANE}
    assert (inside.messages, inside.latency) == (2, 1e-6)
    # Over: the first device of each of the two nodes.
    assert on(over, Wire.NIC) == {(0, 0): Load(1.0, 1.0), (1, 0): Load(1.0, 1.0)}
    assert set(on(over, Wire.LANE)) == {(0, 0b01), (1, 0b01)}
    assert over.messages == 2
    assert over.latency == pytest.approx(10e-6)
    # Back: from the first device to the second.
    assert on(back, Wire.LANE) == {
        (host, part): Load(1.0, 0.0) if part == 0b01 else Load(0.0, 1.0) for host, part in each
    }
    assert (back.messages, back.latency) == (1, 1e-6)
    # In turn 1/25 + 1/10 + 1/25 s/GB; while pieces follow each other all three share a first lane.
    found = price((inside, over, back), lambda place: prior(there, place[0]).bandwidth)
    assert found.per_byte == pytest.approx(3 / 25e9)
    assert found.per_byte + found.through == pytest.approx(1 / 25e9 + 1 / 10e9 + 1 / 25e9)


def test_hierarchical_over_many_devices_moves_less_over_the_cards_than_one_ring() -> None:
    there = cluster(2)
    shape = shape_of(there, placement(("n0", 0xFF), ("n1", 0xFF)))
    _, over, _ = hierarchical(shape, Wiring(there))
    flat = ring(ranks_of(shape), shape, Wiring(there))
    assert on(over, Wire.NIC)[0, 0].most == 1.0  # 2 * 1/2
    assert on(flat, Wire.NIC)[0, 0].most == 2 * 15 / 16


def test_devices_of_one_task_sum_among_themselves_and_tasks_do_not_meet() -> None:
    there = cluster(2)
    stage = inside_tasks(
        shape_of(there, placement(("n0", 0b11), ("n0", 0b1100), ("n1", 0b1))), Wiring(there)
    )
    assert on(stage, Wire.LANE) == {(0, 1 << device): Load(1.0, 1.0) for device in range(4)}
    assert wires_of(stage) == {Wire.LANE}
