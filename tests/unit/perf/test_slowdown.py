"""What a wider placement costs, by hand."""

from dataclasses import replace
from itertools import pairwise

import pytest

from muster.model.cluster import Cluster
from muster.model.job import Locality, StepProfile
from muster.model.profile import LayerType, ModelProfile, Tensor
from muster.model.topology import Level, Link
from muster.perf.predict import Predictor
from muster.perf.slowdown import Reach, reach, step_seconds, widest_within
from tests.builders import cluster, job, mixed, node_set
from tests.unit.model.shapes import QUADS

SAME = Link(10e9, 0.0)


def widest(
    there: Cluster, devices: int, tolerance: float | None, profile: StepProfile | None = None
) -> Level:
    asked = job("j", devices, locality=Locality(max_slowdown=tolerance), profile=profile)
    found = reach(there, tuple(there.configurations.values()), devices)
    return widest_within(asked, devices, found, Predictor(there))


@pytest.mark.parametrize(
    ("devices", "seconds"),
    [
        (1, 0.1),  # nothing to synchronise
        (2, 0.1 + 0.1 + 0.002),  # 2 * 1/2 * 1 GB / 10 GB/s, 2 * 1 ms
        (4, 0.1 + 0.15 + 0.006),
        (5, 0.1 + 0.16 + 0.008),
    ],
)
def test_a_step_is_compute_and_a_ring_over_the_worst_link(devices: int, seconds: float) -> None:
    profile = StepProfile(compute=0.1, gradients=1e9)
    assert step_seconds(profile, devices, Link(10e9, 1e-3)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("devices", "level"),
    [
        (2, Level.SWITCH),
        (3, Level.SOCKET),
        (8, Level.NODE),
        (9, Level.RACK),
        (17, Level.DOMAIN),
        (33, Level.CLUSTER),
    ],
)
def test_the_narrowest_level_is_the_first_that_is_large_enough(devices: int, level: Level) -> None:
    there = cluster(8, racks=4, domains=2)
    found = reach(there, tuple(there.configurations.values()), devices)
    assert found.narrowest is level
    assert [each for each, _ in found.links] == [each for each in Level if each >= level]


def test_a_configuration_set_without_nodes_offers_nothing() -> None:
    there = mixed((2, node_set(devices=2)))
    large = node_set("b", devices=8)
    there = replace(there, configurations={**there.configurations, "b": large})
    assert reach(there, tuple(there.configurations.values()), 4).narrowest is Level.RACK


def test_two_racks_of_one_name_in_two_domains_are_not_one_rack() -> None:
    there = cluster(2, racks=2, domains=2)
    there = replace(there, nodes=tuple(replace(node, rack="r0") for node in there.nodes))
    assert reach(there, tuple(there.configurations.values()), 16).narrowest is Level.CLUSTER


def test_without_a_tolerance_the_named_level_alone_counts() -> None:
    assert widest(cluster(4), 4, None) is Level.CLUSTER


def test_five_percent_forbids_a_slower_level() -> None:
    # Two devices: 25 GB/s below a switch, 16 GB/s below a socket.
    assert widest(cluster(4), 2, 0.05) is Level.SWITCH


def test_a_tolerance_reaches_as_far_as_it_says() -> None:
    # 100 MB at 25, 16 and 10 GB/s: 4.0, 6.3 and 10 ms, and 2 to 6 us of latency.
    assert widest(cluster(4), 2, 0.57) is Level.SOCKET
    assert widest(cluster(4), 2, 1.49) is Level.SOCKET
    assert widest(cluster(4), 2, 1.51) is Level.RACK


def test_a_level_that_is_just_as_fast_is_allowed_by_no_tolerance_at_all() -> None:
    kind = node_set()
    kind = replace(kind, layers=tuple(replace(layer, link=SAME) for layer in kind.layers), nic=SAME)
    there = replace(cluster(4, kind, racks=2), links=dict.fromkeys(cluster(1).links, SAME))
    assert widest(there, 2, 0.0) is Level.CLUSTER


def test_of_equal_bandwidth_the_level_with_more_latency_is_slower() -> None:
    kind = replace(node_set(devices=2), nic=SAME)
    links = {
        Level.RACK: SAME,
        Level.DOMAIN: Link(10e9, 0.0),
        Level.CLUSTER: Link(10e9, 1e-3),
    }
    there = replace(cluster(8, kind, racks=4, domains=2), links=links)
    assert widest(there, 4, 0.05, StepProfile(0.0, 1e6)) is Level.DOMAIN


def test_where_compute_dominates_wider_is_allowed() -> None:
    # Four devices, 150 MB: 9.4 ms below a socket, 15 in a rack, 30 in a domain, 75 between domains.
    busy = StepProfile(compute=1.0, gradients=1e8)
    assert widest(cluster(4, racks=2, domains=2), 4, 0.05, busy) is Level.DOMAIN
    assert widest(cluster(4, racks=2, domains=2), 4, 0.10, busy) is Level.CLUSTER


def test_both_halves_of_a_contract_count() -> None:
    locality = Locality(widest=Level.SOCKET, max_slowdown=9.0)
    asked = job("j", 2, locality=locality)
    there = cluster(4)
    found = reach(there, (node_set(),), 2)
    assert widest_within(asked, 2, found, Predictor(there)) is Level.SOCKET


def test_the_best_level_there_is_stays_allowed_however_strict_the_tolerance() -> None:
    assert widest(cluster(4), 16, 0.0) >= Level.RACK


def test_wider_is_never_taken_to_be_faster() -> None:
    fast_network = replace(node_set(), nic=Link(400e9, 1e-6))
    there = replace(cluster(4, fast_network), links=dict.fromkeys(cluster(1).links, Link(400e9, 1e-6)))
    links = [link for _, link in reach(there, (fast_network,), 2).links]
    assert all(a.bandwidth >= b.bandwidth for a, b in pairwise(links))
    assert widest(there, 2, 0.05) is Level.SWITCH


def test_nvlink_makes_a_socket_as_fast_as_a_switch() -> None:
    assert widest(cluster(2, QUADS), 2, 0.05) is Level.SOCKET


@pytest.mark.parametrize("devices", [0, 1])
def test_a_job_of_one_device_or_none_may_go_anywhere_on_any_cluster(devices: int) -> None:
    bare = replace(node_set("cpu", devices=0), layers=())
    there = mixed((1, node_set()), (1, bare))
    assert widest(there, devices, 0.05) is Level.CLUSTER
    assert reach(there, (bare,), 0) == Reach(Level.DEVICE, ())


def test_a_job_that_names_its_model_is_priced_by_it() -> None:
    """Few parameters for its operations: across nodes costs it next to nothing. Many: a lot."""
    there = cluster(4)
    light = modelled(bytes_=4_000_000, operations=1e11)
    heavy = modelled(bytes_=4_000_000_000, operations=1e9)
    assert modelled_widest(there, light, 0.05) is Level.CLUSTER
    assert modelled_widest(there, heavy, 0.05) < Level.RACK


def test_a_model_on_a_device_nobody_knows_is_priced_by_its_synchronisation_alone() -> None:
    there = cluster(4, node_set(device_type="Mystery"))
    light = modelled(bytes_=4_000_000, operations=1e11)
    assert modelled_widest(there, light, 0.05) == widest(there, 4, 0.05)


def modelled(bytes_: int, operations: float) -> ModelProfile:
    tensors = (Tensor("w", bytes_, 1.0),)
    layers = ((LayerType.DENSE, 1.0),)
    return ModelProfile("m", tensors, operations, 1_000, layers, 1_000, 1_000, batch=32)


def modelled_widest(there: Cluster, model: ModelProfile, tolerance: float) -> Level:
    asked = job("j", 4, locality=Locality(max_slowdown=tolerance), model=model)
    found = reach(there, tuple(there.configurations.values()), 4)
    return widest_within(asked, 4, found, Predictor(there))
