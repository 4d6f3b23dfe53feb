"""Steps predicted on small placements, by hand; and every question that has no answer."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, hypot, log

import pytest

from muster.model.cluster import Cluster
from muster.model.placement import Placement, Slot
from muster.model.plan import Overlap, Plan, Sync
from muster.model.profile import ModelProfile
from muster.model.topology import Level, Link
from muster.perf.compute import PRIOR_SPREAD, Computed, ComputeHistory, ComputeLine
from muster.perf.estimate import Estimate, Unknown, WhyUnknown
from muster.perf.history.interference import Interference, Shared
from muster.perf.history.links import Carried, LinkHistory
from muster.perf.history.steps import SPREAD, StepHistory, Stepped
from muster.perf.predict import Breakdown, Knowledge, Neighbour, Predictor
from muster.perf.wires import LinkClass, Wire
from muster.split.batch import Bearer, shares
from tests.builders import cluster, mixed, node_set, placement, slot
from tests.unit.perf.shapes import CHUNK, MB, cpu_worker, device_set, model, plan, server

KIND = device_set()
SMALL = model(10 * MB)
"""One tensor of 10 MB; 10 samples of 1 ms and 0.03 ms of launching."""
ALONE = 10.03e-3
PAIR = placement(("n0", 0b1), ("n1", 0b1))
TALKER = model(100 * MB, per_sample=1e-6)
"""Four pieces of 25 MB at the end of 0.04 ms of computing."""


def known(
    there: Cluster,
    how: Plan,
    placed: Placement,
    profile: ModelProfile = SMALL,
    *,
    knowledge: Knowledge | None = None,
    neighbours: Sequence[Neighbour] = (),
    job: str = "",
) -> Estimate:
    """The step, which must be known."""
    found = Predictor(there, knowledge).step_time(profile, how, placed, neighbours, job)
    assert isinstance(found, Estimate), found
    return found


def seconds(there: Cluster, how: Plan, placed: Placement, profile: ModelProfile = SMALL) -> float:
    """The step's mean."""
    return known(there, how, placed, profile).mean


def unknown(there: Cluster, how: Plan, placed: Placement, profile: ModelProfile = SMALL) -> Unknown:
    """Why there is no answer; asked for what it is made of, the answer is the same."""
    found = Predictor(there).step_time(profile, how, placed)
    assert isinstance(found, Unknown), found
    assert Predictor(there).breakdown(profile, how, placed) == found
    return found


# Steps by hand.


@pytest.mark.parametrize("overlap", list(Overlap))
@pytest.mark.parametrize("sync", [Sync.RING, Sync.HIERARCHICAL])
def test_one_device_only_computes(sync: Sync, overlap: Overlap) -> None:
    found = seconds(cluster(1, KIND), plan(sync, overlap), placement(("n0", 0b1)))
    assert found == pytest.approx(ALONE)


def test_a_ring_of_two_nodes_by_hand() -> None:
    # 2 * 1/2 of 10 MB over a card of 10 GB/s, 2 messages of 5 + 5 us; nothing to hide it behind.
    found = seconds(cluster(2, KIND), plan(), PAIR)
    assert found == pytest.approx(ALONE + 1e-3 + 2 * 10e-6)


def test_gradients_ready_early_travel_beside_the_backward_pass() -> None:
    # 10.06 ms of computing: forward 3.353, backward 6.707; pieces of 25 MB, 2.5 ms and 20 us each.
    profile = model(25 * MB, 25 * MB, ready=(0.5, 1.0))
    compute = 10.06e-3
    backward = 2 / 3 * compute
    done = max(0.5 * backward + 5.0e-3 + 40e-6, backward + 2.5e-3 + 20e-6)
    full = seconds(cluster(2, KIND), plan(), PAIR, profile)
    none = seconds(cluster(2, KIND), plan(overlap=Overlap.NONE), PAIR, profile)
    assert full == pytest.approx(compute / 3 + done)
    assert none == pytest.approx(compute + 5.0e-3 + 40e-6)


def test_sharded_over_two_nodes_by_hand() -> None:
    # Each pushes half and pulls half, and takes as much in: 1 over a process's port of 3 GB/s, in two
    # messages of 20 + 10 us.
    found = seconds(cluster(2, KIND), plan(Sync.SHARDED), PAIR)
    assert found == pytest.approx(ALONE + 10e6 / 3e9 + 2 * 30e-6)


def test_one_server_for_one_worker_by_hand() -> None:
    # All through two ports of 3 GB/s, then the last chunk comes back.
    placed = placement(("n0", 0b1), server("n1"))
    found = seconds(cluster(2, KIND), plan(Sync.DEDICATED), placed)
    assert found == pytest.approx(ALONE + (10e6 + CHUNK) / 3e9 + 2 * 30e-6)


def test_one_server_for_two_workers_by_hand() -> None:
    # Two whole models through the server's port each way.
    placed = PAIR.with_slots((server("n2"),))
    found = seconds(cluster(3, KIND), plan(Sync.DEDICATED), placed)
    assert found == pytest.approx(ALONE + 2 * 10e6 / 3e9 + 2 * 30e-6)


def test_two_servers_halve_what_each_carries() -> None:
    there = cluster(4, KIND)
    one = seconds(there, plan(Sync.DEDICATED), PAIR.with_slots((server("n2"),)))
    two = seconds(there, plan(Sync.DEDICATED), PAIR.with_slots((server("n2"), server("n3", 1))))
    # 2 over the only server's port; else 1 over each, and two chunks that nothing hides any more.
    assert one - two == pytest.approx((10e6 - 2 * CHUNK) / 3e9)


def test_the_slowest_worker_counts() -> None:
    there = cluster(2, KIND)
    moved = 1e-3 + 20e-6
    assert seconds(there, plan(batch=(5, 20)), PAIR) == pytest.approx(20.03e-3 + moved)
    assert seconds(there, plan(batch=(20, 5)), PAIR) == pytest.approx(20.03e-3 + moved)


def test_a_tasks_samples_are_dealt_to_its_devices() -> None:
    there = cluster(1, KIND)
    found = Predictor(there).breakdown(SMALL, plan(batch=(15,)), placement(("n0", 0b11)))
    assert isinstance(found, Breakdown)
    assert found.compute == pytest.approx(8.03e-3)  # 8 and 7


def test_unequal_devices_with_unequal_parts_beat_an_equal_split() -> None:
    there = mixed((1, KIND), (1, device_set("b", speed=0.5)))
    known_lines = [Predictor(there).line(SMALL, name) for name in ("a", "b")]
    lines = [each for each in known_lines if isinstance(each, ComputeLine)]
    parts = shares([Bearer(each) for each in lines], 20)
    assert parts is not None
    assert sum(parts) == 20
    equal = seconds(there, plan(batch=(10, 10)), PAIR)
    balanced = seconds(there, plan(batch=parts), PAIR)
    assert equal == pytest.approx(20.03e-3 + 1.02e-3)
    assert balanced == pytest.approx(14.03e-3 + 1.02e-3)  # 13 or 14 of 1 ms, 7 or 6 of 2 ms


def test_workers_without_devices_compute_on_their_cores() -> None:
    # 4 cores of 40e9 operations/s: 10 samples of 0.65e9 / 3 * 3 / 0.65 operations.
    there = cluster(1, node_set(devices=0))
    found = seconds(there, plan(), placement(cpu_worker("n0", cores=4)))
    assert found == pytest.approx(30e-6 + 10 * 1e9 / (4 * 40e9))


def test_what_a_step_is_made_of() -> None:
    found = Predictor(cluster(4, KIND, racks=2)).breakdown(
        SMALL, plan(), placement(("n0", 0b1), ("n2", 0b1))
    )
    assert isinstance(found, Breakdown)
    assert found.compute == pytest.approx(ALONE)
    assert found.transfers == pytest.approx(10e6 / 5e9 + 2 * 15e-6)
    assert found.busiest is not None
    link, name, _ = found.busiest
    assert link == LinkClass(Wire.RACK)
    assert name in ("d0/r0", "d0/r1")


def test_alone_a_step_is_bounded_by_nothing() -> None:
    found = Predictor(cluster(1, KIND)).breakdown(SMALL, plan(), placement(("n0", 0b1)))
    assert isinstance(found, Breakdown)
    assert found.compute == pytest.approx(ALONE)
    assert (found.transfers, found.busiest) == (0.0, None)


def test_transfers_with_a_barrier_are_those_of_both_ways() -> None:
    # Two pieces of 25 MB through the server's port: in for two workers, then out for two.
    placed = PAIR.with_slots((server("n2"),))
    how = plan(Sync.DEDICATED, Overlap.BARRIER)
    found = Predictor(cluster(3, KIND)).breakdown(model(25 * MB, 25 * MB), how, placed)
    assert isinstance(found, Breakdown)
    assert found.transfers == pytest.approx(2 * (2 * 50e6 / 3e9 + 2 * 30e-6))


# Orders.


@pytest.mark.parametrize("size", [10_000, MB, 100 * MB])
@pytest.mark.parametrize("overlap", list(Overlap))
def test_two_devices_farther_apart_are_no_faster(size: int, overlap: Overlap) -> None:
    there = cluster(8, KIND, racks=4, domains=2)
    places = [("n0", 0b10), ("n0", 0b100), ("n0", 0b10000), ("n1", 1), ("n2", 1), ("n4", 1)]
    found = [
        seconds(there, plan(overlap=overlap), placement(("n0", 0b1), place), model(size))
        for place in places
    ]
    assert found == sorted(found)


def test_a_wider_card_for_the_server_makes_no_step_slower() -> None:
    # All but the last few bytes are hidden behind a long backward pass.
    ports = Link(1e12, 20e-6)
    workers = replace(KIND, nic=Link(1.5e9, 5e-6), host=ports)
    profile = model(*[25 * MB] * 3, 1000, per_sample=0.1)
    found = []
    for bandwidth in (1e9, 10e9):
        serving = replace(node_set("s", devices=0), nic=Link(bandwidth, 5e-6), host=ports)
        there = mixed((2, workers), (1, serving))
        placed = PAIR.with_slots((server("n2"),))
        found.append(seconds(there, plan(Sync.DEDICATED), placed, profile))
    assert found[1] <= found[0] * (1 + 1e-9)


def test_a_barrier_changes_nothing_for_rings() -> None:
    for sync in (Sync.RING, Sync.HIERARCHICAL):
        there, placed = cluster(2, KIND), placement(("n0", 0b11), ("n1", 0b11))
        barrier = seconds(there, plan(sync, Overlap.BARRIER), placed, model(MB, 80 * MB))
        assert barrier == seconds(there, plan(sync, Overlap.FULL), placed, model(MB, 80 * MB))


def test_even_shards_with_a_barrier_are_no_slower_than_without_any_overlap() -> None:
    # With even shards push and pull load a card alike, so at once they take as long as one by one.
    there, profile = cluster(2, KIND), model(25 * MB, 25 * MB)
    barrier = seconds(there, plan(Sync.SHARDED, Overlap.BARRIER), PAIR, profile)
    assert barrier <= seconds(there, plan(Sync.SHARDED, Overlap.NONE), PAIR, profile)


def test_names_do_not_matter() -> None:
    late = replace(device_set("b", speed=0.7), nic=Link(2e9, 400e-6))
    there = mixed((2, KIND), (1, late), (1, KIND), racks=2)
    names = {"n0": "x3", "n1": "x0", "n2": "x1", "n3": "x2"}
    renamed = replace(
        there,
        nodes=tuple(
            replace(node, name=names[node.name], rack="r9" if node.rack == "r0" else "r8", domain="z")
            for node in there.nodes
        ),
    )
    for sync in (Sync.RING, Sync.HIERARCHICAL, Sync.SHARDED):
        placed = placement(("n0", 0b11), ("n1", 0b1), ("n2", 0b1), ("n3", 0b1))
        moved = Placement(tuple(replace(s, node=names[s.node]) for s in placed.slots))
        one, other = known(there, plan(sync), placed), known(renamed, plan(sync), moved)
        assert one.mean == pytest.approx(other.mean, rel=1e-12)
        assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-12)


def test_names_do_not_matter_where_cards_differ() -> None:
    # Three nodes in one rack and one in another; the late card is the first, or the second, by name.
    late = replace(device_set("b"), nic=Link(10e9, 400e-6))
    there = mixed((1, KIND), (1, late), (2, KIND))
    racks = {"n0": "r0", "n1": "r0", "n2": "r0", "n3": "r1"}
    nodes = tuple(replace(node, rack=racks[node.name]) for node in there.nodes)
    new = {"n0": "n1", "n1": "n0", "n2": "n2", "n3": "n3"}
    renamed = tuple(replace(node, name=new[node.name]) for node in nodes)
    old_names = placement(*((name, 0b1) for name in racks))
    new_names = placement(*((new[name], 0b1) for name in racks))
    one = seconds(replace(there, nodes=nodes), plan(), old_names)
    assert one == seconds(replace(there, nodes=renamed), plan(), new_names)


def test_where_alike_nodes_stand_does_not_matter() -> None:
    there = cluster(8, KIND, racks=2)
    near = seconds(there, plan(), placement(("n0", 0b11), ("n1", 0b11)))
    assert near == seconds(there, plan(), placement(("n5", 0b11), ("n7", 0b11)))


def test_asked_again_the_answer_is_the_same_as_asked_for_the_first_time() -> None:
    there = cluster(4, KIND, racks=2)
    predictor = Predictor(there)
    questions = [
        (model(30 * MB), plan(sync, overlap), placement(("n0", bits), ("n2", bits)))
        for sync in (Sync.RING, Sync.SHARDED)
        for overlap in Overlap
        for bits in (0b1, 0b11)
    ]
    first = [predictor.step_time(*question) for question in questions]
    assert [predictor.step_time(*question) for question in questions] == first
    assert [Predictor(there).step_time(*question) for question in questions] == first


def test_two_profiles_of_one_name_are_not_taken_for_each_other() -> None:
    predictor = Predictor(cluster(2, KIND))
    small = predictor.step_time(model(MB), plan(), PAIR)
    assert predictor.step_time(model(100 * MB), plan(), PAIR) != small


# Intervals.


def test_the_interval_of_one_device_by_hand() -> None:
    # The data sheet's doubt, and the doubt of every step that nothing has confirmed.
    found = known(cluster(1, KIND), plan(), placement(("n0", 0b1)))
    around = exp(hypot(log(PRIOR_SPREAD), log(SPREAD)))
    assert found.low == pytest.approx(found.mean / around)
    assert found.high == pytest.approx(found.mean * around)


def test_what_jobs_have_shown_corrects_a_step_and_narrows_it() -> None:
    there = cluster(2, KIND)
    before = known(there, plan(), PAIR)
    steps = [Stepped("j", "m", Sync.RING, Overlap.FULL, 1.0, 1.5)] * 40
    shown = Knowledge(steps=StepHistory(tuple(steps)))
    after = known(there, plan(), PAIR, knowledge=shown, job="j")
    assert after.mean == pytest.approx(1.5 * before.mean, rel=0.01)
    assert after.high / after.mean < 1.1 < before.high / before.mean
    other = known(there, plan(overlap=Overlap.NONE), PAIR, knowledge=shown, job="j")
    assert other == known(there, plan(overlap=Overlap.NONE), PAIR)


def test_a_link_that_showed_half_its_bandwidth_counts_half() -> None:
    card = LinkClass(Wire.NIC, "a")
    history = LinkHistory(tuple(Carried(card, 1e8, 5e-6 + 1e8 / 5e9, float(i)) for i in range(100)))
    found = known(cluster(2, KIND), plan(), PAIR, TALKER, knowledge=Knowledge(links=history))
    assert found.mean == pytest.approx(0.04e-3 + 100e6 / 5e9 + 4 * 20e-6, rel=0.02)


def test_a_measured_device_replaces_its_data_sheet() -> None:
    history = ComputeHistory((Computed("m", "MADE-a", 10, 20.06e-3),))
    found = known(
        cluster(1, KIND), plan(), placement(("n0", 0b1)), knowledge=Knowledge(compute=history)
    )
    assert found.mean == pytest.approx(20.06e-3)


# Neighbours.


def beside(mine: Placement, theirs: Placement, knowledge: Knowledge | None = None) -> float:
    """My step beside theirs over my step alone, on eight nodes in two racks of one domain."""
    there = cluster(8, KIND, racks=2)
    other = Neighbour(TALKER, plan(), theirs)
    alone = known(there, plan(), mine, TALKER, knowledge=knowledge)
    return known(there, plan(), mine, TALKER, knowledge=knowledge, neighbours=[other]).mean / alone.mean


ODD, EVEN = placement(("n0", 0b001), ("n0", 0b100)), placement(("n0", 0b010), ("n0", 0b1000))
"""Two jobs over the same two switches of a socket."""


def test_two_jobs_under_one_switch_slow_each_other_by_a_fair_part() -> None:
    # Alone 0.04 + 6.25 + 4 * 2 * 2 us; the neighbour asks for nearly all 16 GB/s, so half is left.
    alone = 0.04e-3 + 100e6 / 16e9 + 16e-6
    assert beside(ODD, EVEN) == pytest.approx((alone + 100e6 / 16e9) / alone)
    assert beside(EVEN, ODD) == pytest.approx(beside(ODD, EVEN))


def test_a_learnt_factor_scales_it() -> None:
    # Half of the predicted excess seen twice, against a prior worth two: (1 + 2) / (2 + 2).
    seen = Knowledge(interference=Interference((Shared(Wire.SWITCH, 2.0, 1.5),) * 2))
    alone = 0.04e-3 + 100e6 / 16e9 + 16e-6
    assert beside(ODD, EVEN, seen) == pytest.approx((alone + 0.75 * 100e6 / 16e9) / alone)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (ODD, placement(("n1", 0b010), ("n1", 0b1000))),  # another node
        (ODD, placement(("n0", 0b1_0000), ("n0", 0b100_0000))),  # another socket
        (placement(("n0", 1), ("n1", 1)), placement(("n2", 1), ("n3", 1))),  # other cards
        (placement(("n0", 1), ("n1", 1)), placement(("n4", 1), ("n5", 1))),  # another rack
        (ODD, placement(("n0", 0b010))),  # one device sends nothing
    ],
)
def test_jobs_that_share_no_link_do_not(mine: Placement, theirs: Placement) -> None:
    assert beside(mine, theirs) == 1.0
    assert beside(theirs, mine) == 1.0


def test_jobs_on_different_nodes_that_cross_between_the_same_racks_share_their_uplinks() -> None:
    mine, theirs = placement(("n0", 1), ("n4", 1)), placement(("n1", 1), ("n5", 1))
    assert beside(mine, theirs) == pytest.approx(2.0, rel=0.01)


def test_a_neighbour_that_mostly_computes_takes_little() -> None:
    there = cluster(1, KIND)
    calm = Neighbour(model(MB), plan(), EVEN)
    alone = known(there, plan(), ODD, TALKER).mean
    both = known(there, plan(), ODD, TALKER, neighbours=[calm]).mean
    assert alone < both < 1.01 * alone


def test_more_neighbours_slow_more() -> None:
    there = cluster(8, KIND, racks=2)
    others = [Neighbour(TALKER, plan(), placement((f"n{i}", 1), (f"n{i + 4}", 1))) for i in range(1, 4)]
    mine = placement(("n0", 1), ("n4", 1))
    found = [known(there, plan(), mine, TALKER, neighbours=others[:n]).mean for n in range(4)]
    assert found == sorted(set(found))
    assert found[3] == pytest.approx(4 * found[0], rel=0.02)


def test_a_neighbour_of_whom_nothing_is_known_is_left_out() -> None:
    lost = Neighbour(replace(TALKER, activations=10**12), plan(), EVEN)
    there = cluster(1, KIND)
    assert known(there, plan(), ODD, TALKER, neighbours=[lost]) == known(there, plan(), ODD, TALKER)


# Questions without an answer.


@pytest.mark.parametrize(
    ("how", "placed", "detail"),
    [
        (plan(), placement(), "no worker"),
        (plan(), placement(server("n0")), "no worker"),
        (plan(Sync.DEDICATED), PAIR, "servers"),
        (plan(batch=(10,)), PAIR, "1 parts of the batch for 2 workers"),
        (plan(batch=(10, 10, 10)), PAIR, "3 parts of the batch for 2 workers"),
        (plan(batch=(10, -1)), PAIR, "-1"),
        (plan(Sync.SHARDED, owners=(1.0,)), PAIR, "1 parts of the parameters for 2 owners"),
        (plan(Sync.SHARDED, owners=(0.5, 0.4)), PAIR, "0.9"),
        (plan(Sync.SHARDED, owners=(0.8, 0.8)), PAIR, "1.6"),
        (plan(Sync.SHARDED, owners=(1.5, -0.5)), PAIR, "-0.5"),
        (plan(Sync.SHARDED, owners=(float("nan"), 0.5)), PAIR, "nan"),
        (
            plan(Sync.DEDICATED, owners=(0.5, 0.5)),
            PAIR.with_slots((server("n2"),)),
            "2 parts of the parameters for 1 owners",
        ),
        (plan(Sync.SHARDED), placement(slot("n0", 1, 1), slot("n1", 1, 2)), "numbered"),
        (plan(batch=(5, 5)), placement(slot("n0", 1, 0), slot("n1", 1, 0)), "numbered"),
        (plan(Sync.DEDICATED), PAIR.with_slots((server("n2", 3),)), "numbered"),
    ],
)
def test_a_plan_that_does_not_fit_its_tasks_is_told_as_such(
    how: Plan, placed: Placement, detail: str
) -> None:
    found = unknown(cluster(3, KIND), how, placed)
    assert found.why is WhyUnknown.BAD_PLAN
    assert detail in found.detail


def test_a_link_without_bandwidth_is_named_and_matters_only_where_it_is_crossed() -> None:
    there = cluster(2, replace(KIND, nic=Link(0.0, 5e-6)))
    found = unknown(there, plan(), PAIR)
    assert found.why is WhyUnknown.NO_BANDWIDTH
    assert "nic" in found.detail
    assert seconds(there, plan(), placement(("n0", 0b1), ("n0", 0b10))) > ALONE


@pytest.mark.parametrize("level", [Level.RACK, Level.DOMAIN, Level.CLUSTER])
def test_so_for_links_above_the_node(level: Level) -> None:
    there = cluster(2, KIND, racks=2, domains=2)
    there = replace(there, links={**there.links, level: Link(0.0, 0.0)})
    assert unknown(there, plan(), PAIR).why is WhyUnknown.NO_BANDWIDTH
    assert unknown(there, plan(Sync.SHARDED), PAIR).why is WhyUnknown.NO_BANDWIDTH


def test_what_does_not_fit_into_memory_is_told_with_both_sizes() -> None:
    # 10 samples of 20 GB, 2.5 million parameters of 12 bytes, on 80 GB.
    found = unknown(cluster(2, KIND), plan(), PAIR, model(10 * MB, activations=20 * 10**9))
    detail = "a device of a has 80.0 GB; m with 10 samples takes 200.0 GB"
    assert found == Unknown(WhyUnknown.OUT_OF_MEMORY, detail)


def test_a_device_of_which_nothing_is_known_is_told_with_what_to_write() -> None:
    found = unknown(cluster(2, node_set(device_type="MADE")), plan(), PAIR)
    assert found.why is WhyUnknown.NO_RATE
    assert "MADE" in found.detail


def test_one_unknown_device_among_known_ones_is_enough() -> None:
    there = mixed((1, KIND), (1, node_set("b", device_type="MADE")))
    assert unknown(there, plan(), PAIR).why is WhyUnknown.NO_RATE


def test_a_model_without_tensors_only_computes() -> None:
    found = seconds(cluster(2, KIND), plan(), PAIR, replace(SMALL, tensors=()))
    assert found == pytest.approx(10e-3)


def test_the_predictor_forgets_no_server_on_a_node_of_its_own() -> None:
    # A server far away costs more than one in the rack.
    there = cluster(4, KIND, racks=2)
    workers: tuple[Slot, ...] = PAIR.slots
    near = seconds(there, plan(Sync.DEDICATED), Placement((*workers, server("n1"))), TALKER)
    far = seconds(there, plan(Sync.DEDICATED), Placement((*workers, server("n3"))), TALKER)
    assert near < far


def test_a_latency_that_was_learnt_counts_as_the_bandwidth_does() -> None:
    # Two messages of a ring of two, each 10 ms later than the file says: the step is 20 ms longer.
    card = LinkClass(Wire.NIC, KIND.name)
    there = cluster(2, KIND)
    rated = Predictor(there).link(card)
    assert not isinstance(rated, Unknown)
    speed = rated.bandwidth.mean
    late = [Carried(card, size, 10e-3 + size / speed) for size in (1e3, 1e6, 1e8) for _ in range(60)]
    before = seconds(there, plan(Sync.RING), PAIR)
    after = known(
        there, plan(Sync.RING), PAIR, knowledge=Knowledge(links=LinkHistory(tuple(late)))
    ).mean
    assert after - before == pytest.approx(20e-3, rel=0.05)
