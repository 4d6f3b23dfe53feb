"""Which links lie between two devices, and what the cluster file says of them."""

from dataclasses import replace

import pytest

from muster.model.topology import ConfigurationSet, Layer, Level, Link
from muster.perf.shape import Host
from muster.perf.wires import LinkClass, Wire, Wiring, prior
from tests.builders import cluster, node_set
from tests.unit.model.shapes import EIGHT, QUADS

Named = tuple[tuple[Wire, int], ...]


def between(kind: ConfigurationSet, a: int, b: int) -> tuple[Named, float]:
    """The kinds of the edges on the first device's side with the devices below, and the latency."""
    wiring = Wiring(cluster(1, kind))
    edges, meeting = wiring.inside(kind.name).between[a][b]
    return tuple((link.wire, below) for link, below in edges), wiring.latency(meeting)


def exits(kind: ConfigurationSet, device: int) -> Named:
    """The edges between a device and the node's memory."""
    edges = Wiring(cluster(1, kind)).inside(kind.name).exits[device]
    return tuple((link.wire, below) for link, below in edges)


def one_switch_a_socket() -> ConfigurationSet:
    """Two sockets with one switch of two devices each, as a cluster file writes it."""
    kind = node_set(devices=4, sockets=2, switches=2)
    return replace(kind, layers=(Layer(Level.SWITCH, (0b0011, 0b1100), Link(25e9, 1e-6)), *kind.layers))


def test_two_devices_under_a_switch_use_their_lanes_alone() -> None:
    assert between(EIGHT, 0, 1) == (((Wire.LANE, 1 << 0),), 1e-6)
    assert between(EIGHT, 1, 0) == (((Wire.LANE, 1 << 1),), 1e-6)


def test_two_switches_of_a_socket_add_the_uplink_of_the_switch() -> None:
    assert between(EIGHT, 0, 2) == (((Wire.LANE, 1 << 0), (Wire.SWITCH, 0b0011)), 2e-6)
    assert between(EIGHT, 3, 1) == (((Wire.LANE, 1 << 3), (Wire.SWITCH, 0b1100)), 2e-6)


def test_two_sockets_add_the_link_between_them() -> None:
    edges = ((Wire.LANE, 1 << 7), (Wire.SWITCH, 0b1100_0000), (Wire.SOCKET, 0b1111_0000))
    assert between(EIGHT, 7, 0) == (edges, 3e-6)


def test_inside_an_nvlink_group_there_is_another_lane() -> None:
    assert between(QUADS, 0, 1) == (((Wire.NVLINK, 1 << 0),), 2e-6)
    assert between(QUADS, 3, 0) == (((Wire.NVLINK, 1 << 3),), 2e-6)


def test_between_nvlink_groups_the_tree_is_used() -> None:
    assert between(QUADS, 0, 4) == between(EIGHT, 0, 4)


def test_a_socket_with_one_switch_has_no_uplink_of_its_own() -> None:
    kind = one_switch_a_socket()
    assert between(kind, 0, 1) == (((Wire.LANE, 0b01),), 1e-6)
    assert between(kind, 0, 2) == (((Wire.LANE, 0b01), (Wire.SOCKET, 0b0011)), 3e-6)
    assert exits(kind, 2) == ((Wire.LANE, 0b0100),)


def test_to_the_nodes_memory_a_device_crosses_lane_and_switch_but_not_the_other_socket() -> None:
    assert exits(EIGHT, 0) == ((Wire.LANE, 1 << 0), (Wire.SWITCH, 0b0011))
    assert exits(EIGHT, 5) == ((Wire.LANE, 1 << 5), (Wire.SWITCH, 0b0011_0000))
    assert exits(QUADS, 5) == exits(EIGHT, 5)


def test_a_node_without_switches_and_sockets_still_has_lanes() -> None:
    plain = node_set(devices=2, sockets=1, switches=1)
    assert exits(plain, 1) == ((Wire.LANE, 0b10),)
    assert between(plain, 1, 0) == (((Wire.LANE, 0b10),), 3e-6)


@pytest.mark.parametrize(
    ("wire", "link"),
    [
        (Wire.LANE, Link(25e9, 1e-6)),
        (Wire.SWITCH, Link(16e9, 2e-6)),
        (Wire.SOCKET, Link(10e9, 3e-6)),
        (Wire.NVLINK, Link(40e9, 2e-6)),
        (Wire.HOST, Link(3e9, 20e-6)),
        (Wire.NIC, Link(10e9, 10e-6)),  # a card of 12.5 GB/s and 5 us on a port of 10 GB/s and 5 us
    ],
)
def test_links_inside_a_node_are_as_its_configuration_set_says(wire: Wire, link: Link) -> None:
    assert prior(cluster(1, QUADS), LinkClass(wire, "a")) == link


def test_a_card_slower_than_its_port_is_the_limit() -> None:
    kind = replace(EIGHT, nic=Link(1e9, 7e-6))
    assert prior(cluster(1, kind), LinkClass(Wire.NIC, "a")) == Link(1e9, 12e-6)


def test_the_uplink_of_a_rack_is_the_domains_link_and_that_of_a_domain_the_clusters() -> None:
    assert prior(cluster(1), LinkClass(Wire.RACK)) == Link(5e9, 10e-6)
    assert prior(cluster(1), LinkClass(Wire.DOMAIN)) == Link(2e9, 20e-6)


@pytest.mark.parametrize(
    ("rack", "domain", "latency"),
    [
        (0, 0, 5e-6 + 5e-6),  # the card's, and that of the rack
        (1, 0, 5e-6 + 10e-6),
        (1, 1, 5e-6 + 20e-6),
    ],
)
def test_latency_between_nodes_is_the_cards_and_the_widest_levels(
    rack: int, domain: int, latency: float
) -> None:
    wiring = Wiring(cluster(1))
    found = wiring.network_latency(Host("a", 0, 0, ()), Host("a", rack, domain, ()))
    assert found == pytest.approx(latency)


def test_of_two_cards_the_slower_to_answer_counts() -> None:
    there = cluster(2)
    late = replace(EIGHT, name="late", nic=Link(10e9, 100e-6))
    wiring = Wiring(replace(there, configurations={**there.configurations, "late": late}))
    here, far = Host("a", 0, 0, ()), Host("late", 0, 0, ())
    assert wiring.network_latency(here, far) == pytest.approx(105e-6)
    assert wiring.network_latency(far, here) == pytest.approx(105e-6)
