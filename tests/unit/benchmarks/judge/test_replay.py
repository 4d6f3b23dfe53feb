"""Steps played transfer by transfer, small enough to be worked out by hand."""

from dataclasses import replace

import pytest

from muster.model.cluster import Cluster, Node
from muster.model.job import Need, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Overlap, Part, Plan, Sync
from muster.model.profile import LayerType, ModelProfile, Tensor
from muster.model.topology import ConfigurationSet, Layer, Level, Link
from muster.perf.costs import CHUNK
from muster.perf.estimate import Unknown, WhyUnknown
from muster.perf.predict import Predictor
from support.judge.replay import replay

MB = 10**6
CARD = 1e9
"""Bytes/s of every card here; ports and lanes are so wide that they do not count."""
WIDE = Link(1e15, 0.0)
PIECE = 25 * MB
"""The bucket: each model here is four of them."""
CUT = PIECE / -(-PIECE // CHUNK)
"""Bytes of a chunk of one owner that holds everything."""


def configuration(name: str, devices: int) -> ConfigurationSet:
    everything = (1 << devices) - 1
    return ConfigurationSet(
        name=name,
        device_type="A100" if devices else "",
        generation="",
        devices=devices,
        device_memory=0,
        layers=(Layer(Level.NODE, (everything,), Link(4 * CARD, 0.0)),),
        millicores=64_000,
        memory=0,
        nic=Link(CARD, 0.0),
        host=WIDE,
    )


def cluster(*devices: int) -> Cluster:
    """Nodes n0, n1, ... in one rack with this many devices each."""
    kinds = {count: configuration(f"x{count}", count) for count in devices}
    nodes = tuple(
        Node(f"n{i}", kinds[count].name, "r", "d", kinds[count].all_devices, 64_000, 0)
        for i, count in enumerate(devices)
    )
    links = {Level.RACK: WIDE, Level.DOMAIN: WIDE, Level.CLUSTER: WIDE}
    return Cluster("test", {kind.name: kind for kind in kinds.values()}, nodes, links)


def model(ready: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)) -> ModelProfile:
    """100 MB in four tensors, each ready after its part of the backward pass."""
    tensors = tuple(Tensor(f"t{i}", PIECE, at) for i, at in enumerate(ready))
    return ModelProfile("m", tensors, 1e10, 1000, ((LayerType.DENSE, 1.0),), 10**6, 1000, 32)


def worker(index: int, node: str, bits: int = 1) -> Slot:
    return Slot(Role.WORKER, index, node, bits, Need(bits.bit_count(), 1_000))


def server(index: int, node: str) -> Slot:
    return Slot(Role.SERVER, index, node, 0, Need(0, 1_000))


def plan_of(slots: tuple[Slot, ...], sync: Sync, **fields: object) -> Plan:
    plan = Plan(tuple(Part(slot.role, 1, slot.need) for slot in slots), sync)
    return replace(plan, **fields)  # type: ignore[arg-type]


def seconds(
    on: Cluster,
    slots: tuple[Slot, ...],
    sync: Sync,
    profile: ModelProfile | None = None,
    **fields: object,
) -> float:
    found = replay(Predictor(on), profile or model(), plan_of(slots, sync, **fields), Placement(slots))
    assert not isinstance(found, Unknown), found
    return found


def computing(samples: int = 32) -> float:
    line = Predictor(cluster(1)).line(model(), "x1")
    assert not isinstance(line, Unknown)
    return line.seconds(samples)


def test_one_device_only_computes() -> None:
    assert seconds(cluster(1), (worker(0, "n0"),), Sync.RING) == pytest.approx(computing())


def test_a_ring_of_two_moves_all_gradients_once_over_each_card() -> None:
    two = worker(0, "n0"), worker(1, "n1")
    assert seconds(cluster(1, 1), two, Sync.RING) == pytest.approx(computing() + 0.1)


def test_a_ring_of_four_moves_them_one_and_a_half_times() -> None:
    four = tuple(worker(i, f"n{i}") for i in range(4))
    assert seconds(cluster(1, 1, 1, 1), four, Sync.RING) == pytest.approx(computing() + 0.15)


def test_a_ring_waits_for_its_slowest_worker() -> None:
    two = worker(0, "n0"), worker(1, "n1")
    found = seconds(cluster(1, 1), two, Sync.RING, batch=(4, 128))
    assert found == pytest.approx(computing(128) + 0.1)


def test_one_servers_card_carries_every_workers_gradients() -> None:
    # In and out at once; the last chunk comes out when it has come in from both.
    star = worker(0, "n0"), worker(1, "n1"), server(0, "n2")
    found = seconds(cluster(1, 1, 0), star, Sync.DEDICATED)
    assert found == pytest.approx(computing() + (2 * 100 * MB + 2 * CUT) / CARD)


def test_two_servers_halve_it() -> None:
    star = worker(0, "n0"), worker(1, "n1"), server(0, "n2"), server(1, "n3")
    found = seconds(cluster(1, 1, 0, 0), star, Sync.DEDICATED)
    assert found == pytest.approx(computing() + 0.1, rel=0.01)


def test_workers_that_own_halves_send_and_serve_half() -> None:
    # Each card sends half of its own gradients, and half of the parameters to the other.
    two = worker(0, "n0"), worker(1, "n1")
    found = seconds(cluster(1, 1), two, Sync.SHARDED)
    assert found == pytest.approx(computing() + 0.1, rel=0.01)


def test_an_uneven_share_makes_its_owner_late() -> None:
    star = worker(0, "n0"), worker(1, "n1"), server(0, "n2"), server(1, "n3")
    even = seconds(cluster(1, 1, 0, 0), star, Sync.DEDICATED)
    uneven = seconds(cluster(1, 1, 0, 0), star, Sync.DEDICATED, owners=(0.75, 0.25))
    assert uneven == pytest.approx(computing() + 0.15, rel=0.01)
    assert even < uneven


def test_smaller_chunks_end_sooner() -> None:
    star = worker(0, "n0"), worker(1, "n1"), server(0, "n2")
    on, profile, plan = Predictor(cluster(1, 1, 0)), model(), plan_of(star, Sync.DEDICATED)
    times = [replay(on, profile, plan, Placement(star), chunk=size) for size in (10 * MB, MB, MB / 10)]
    assert times == sorted(times, key=lambda time: -float(str(time)))


def test_gradients_that_are_ready_early_hide_behind_the_backward_pass() -> None:
    # The last tensor is ready at the end and takes 25 ms; the others had time before.
    two = worker(0, "n0"), worker(1, "n1")
    early = model((0.25, 0.5, 0.75, 1.0))
    found = seconds(cluster(1, 1), two, Sync.RING, early, batch=(4096, 4096))
    assert found == pytest.approx(computing(4096) + 0.025)


def test_without_overlap_everything_waits_for_the_end_of_computing() -> None:
    two = worker(0, "n0"), worker(1, "n1")
    early = model((0.25, 0.5, 0.75, 1.0))
    found = seconds(cluster(1, 1), two, Sync.RING, early, batch=(4096, 4096), overlap=Overlap.NONE)
    assert found == pytest.approx(computing(4096) + 0.1)


def test_behind_a_barrier_parameters_come_during_the_forward_pass() -> None:
    # All gradients are ready at the end: 0.2 s in. Before that the forward pass, whose last layer
    # is needed last, waits for the parameters: 0.2 s out, and then all of it is still to do.
    star = worker(0, "n0"), worker(1, "n1"), server(0, "n2")
    found = seconds(cluster(1, 1, 0), star, Sync.DEDICATED, overlap=Overlap.BARRIER)
    assert found == pytest.approx(computing() + 0.4)


def test_a_barrier_hides_pulls_behind_a_long_forward_pass() -> None:
    star = worker(0, "n0"), worker(1, "n1"), server(0, "n2")
    early = model((0.25, 0.5, 0.75, 1.0))
    how = {"batch": (4096, 4096), "overlap": Overlap.BARRIER}
    found = seconds(cluster(1, 1, 0), star, Sync.DEDICATED, early, **how)
    # The tensor needed first takes 50 ms to come, the one that is ready last as long to go.
    assert found == pytest.approx(computing(4096) + 0.1)


def test_stages_of_a_hierarchy_overlap_for_different_pieces() -> None:
    # Two nodes of two: inside 1/4 ns a byte and back 1/4, between the nodes 1 ns. Pieces of 25 MB
    # follow each other over the cards; only the first one's way in and the last one's back are added.
    four = (worker(0, "n0", 1), worker(1, "n0", 2), worker(2, "n1", 1), worker(3, "n1", 2))
    found = seconds(cluster(2, 2), four, Sync.HIERARCHICAL)
    assert found == pytest.approx(computing() + 0.1 + 2 * 0.025 / 4)


def test_a_task_of_two_devices_sums_inside_and_sends_once() -> None:
    on = cluster(2, 2, 0, 0)
    whole = worker(0, "n0", 3), worker(1, "n1", 3), server(0, "n2"), server(1, "n3")
    single = (
        *(worker(i, f"n{i // 2}", 1 << i % 2) for i in range(4)),
        server(0, "n2"),
        server(1, "n3"),
    )
    assert seconds(on, whole, Sync.DEDICATED) == pytest.approx(computing() + 0.1, rel=0.06)
    assert seconds(on, single, Sync.DEDICATED) == pytest.approx(computing() + 0.2, rel=0.02)


def test_names_of_nodes_do_not_matter() -> None:
    on = cluster(1, 1, 0, 1)
    one = worker(0, "n0"), worker(1, "n1"), server(0, "n2")
    other = worker(0, "n3"), worker(1, "n0"), server(0, "n2")
    assert seconds(on, one, Sync.DEDICATED) == seconds(on, other, Sync.DEDICATED)


def test_a_plan_that_cannot_be_is_refused_with_its_reason() -> None:
    alone = (worker(0, "n0"),)
    plan = plan_of(alone, Sync.DEDICATED)
    found = replay(Predictor(cluster(1)), model(), plan, Placement(alone))
    assert isinstance(found, Unknown)
    assert found.why is WhyUnknown.BAD_PLAN


def test_what_does_not_fit_into_memory_is_refused() -> None:
    on = cluster(1)
    small = replace(on.configurations["x1"], device_memory=MB)
    on = replace(on, configurations={"x1": small})
    alone = (worker(0, "n0"),)
    found = replay(Predictor(on), model(), plan_of(alone, Sync.RING), Placement(alone))
    assert isinstance(found, Unknown)
    assert found.why is WhyUnknown.OUT_OF_MEMORY
