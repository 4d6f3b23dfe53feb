"""Whatever the links and transfers: rates are max-min fair, and the closed form is near the replay."""

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from muster.model.cluster import Cluster, Node
from muster.model.job import Need, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Overlap, Plan, Sync
from muster.model.profile import LayerType, ModelProfile, Tensor
from muster.model.topology import ConfigurationSet, Link
from muster.perf.costs import price, trips
from muster.perf.estimate import Unknown
from muster.perf.predict import Predictor
from muster.perf.shape import site_of
from support.judge.fair import max_min
from support.judge.replay import replay
from tests.builders import LINKS, node_set

EVERY = settings(max_examples=60, deadline=None, derandomize=True, database=None)
MB = 10**6

edges, streams = 5, 6
counts = st.lists(
    st.lists(st.sampled_from([0, 0, 1, 1, 3]), min_size=streams, max_size=streams),
    min_size=edges,
    max_size=edges,
)
capacities = st.lists(st.floats(0.1, 100), min_size=edges, max_size=edges)


def shared(uses: list[list[int]], capacity: list[float]) -> tuple[NDArray[np.float64], ...]:
    crossing = np.array(uses, dtype=np.float64)
    assume(bool((crossing.sum(axis=0) > 0).all()))
    rates = max_min(crossing, np.array(capacity), np.ones(streams, dtype=np.bool_))
    return crossing, np.array(capacity), rates


@EVERY
@given(counts, capacities)
def test_no_edge_carries_more_than_it_can(uses: list[list[int]], capacity: list[float]) -> None:
    crossing, can, rates = shared(uses, capacity)
    assert (crossing @ rates <= can * (1 + 1e-9)).all()


@EVERY
@given(counts, capacities)
def test_every_transfer_has_a_full_edge_where_none_is_faster(
    uses: list[list[int]], capacity: list[float]
) -> None:
    crossing, can, rates = shared(uses, capacity)
    full = crossing @ rates >= can * (1 - 1e-9)
    for stream, rate in enumerate(rates):
        fastest = [rates[row > 0].max() for row in crossing[full] if row[stream]]
        assert any(rate >= other * (1 - 1e-9) for other in fastest)


profiles = st.builds(
    lambda sizes, act: ModelProfile(
        "m",
        tuple(Tensor(f"t{i}", s * MB, (i + 1) / len(sizes)) for i, s in enumerate(sizes)),
        2e9,
        act * MB,
        ((LayerType.CONVOLUTION, 1.0),),
        10**6,
        10**5,
        32,
    ),
    st.lists(st.integers(10, 60), min_size=3, max_size=12),
    st.integers(1, 40),
)


def kind(name: str, devices: int, nic: float) -> ConfigurationSet:
    return replace(node_set(name, devices=devices), nic=Link(nic, 1e-5))


def cluster(devices: list[int], cards: list[float]) -> Cluster:
    """A node for each number of devices, in two racks; then two nodes for servers."""
    nodes = [*zip(devices, cards, strict=True), (0, 1e9), (0, 1e9)]
    kinds = {f"{d}-{c:g}": kind(f"{d}-{c:g}", d, c) for d, c in nodes}
    made = tuple(
        Node(f"n{i}", f"{d}-{c:g}", f"r{i % 2}", "d0", kinds[f"{d}-{c:g}"].all_devices, 32_000, 0)
        for i, (d, c) in enumerate(nodes)
    )
    return Cluster("test", kinds, made, LINKS)


@st.composite
def steps(draw: st.DrawFn) -> tuple[Predictor, ModelProfile, Plan, Placement]:
    """A plan with even owners on a small mixed cluster."""
    devices = draw(st.lists(st.sampled_from([1, 1, 2, 4, 8]), min_size=1, max_size=4))
    cards = [draw(st.sampled_from([5e8, 1e9, 3e9])) for _ in devices]
    on = cluster(devices, cards)
    whole = draw(st.booleans())
    bits = [
        (i, part)
        for i, d in enumerate(devices)
        for part in ([(1 << d) - 1] if whole else [1 << b for b in range(d)])
    ]
    sync = draw(st.sampled_from(list(Sync)))
    slots = [Slot(Role.WORKER, j, f"n{i}", b, Need(b.bit_count())) for j, (i, b) in enumerate(bits)]
    if sync is Sync.DEDICATED:
        slots += [Slot(Role.SERVER, k, f"n{len(devices) + k}", 0, Need(0, 1000)) for k in range(2)]
    batch = tuple(draw(st.integers(8, 64)) for _ in bits)
    plan = Plan((), sync, batch, overlap=draw(st.sampled_from(list(Overlap))))
    return Predictor(on), draw(profiles), plan, Placement(tuple(slots))


@EVERY
@given(steps())
def test_the_closed_form_is_near_the_replay(
    step: tuple[Predictor, ModelProfile, Plan, Placement],
) -> None:
    fast, fine = step[0].step_time(*step[1:]), replay(*step)
    assert not isinstance(fast, Unknown)
    assert not isinstance(fine, Unknown)
    assert 0.85 * fine <= fast.mean <= 1.1 * fine


@EVERY
@given(steps())
def test_no_step_ends_before_its_busiest_edge_has_carried_everything(
    step: tuple[Predictor, ModelProfile, Plan, Placement],
) -> None:
    predictor, profile, plan, placement = step
    fine = replay(*step)
    assert not isinstance(fine, Unknown)

    def bandwidth(place: tuple[object, ...]) -> float:
        known = predictor.link(place[0])  # type: ignore[arg-type]
        assert not isinstance(known, Unknown)
        return known.bandwidth.mean

    shape = site_of(predictor.cluster, placement).shape
    route = trips(plan, shape, predictor.wiring)
    for stage in (*route.out, *route.back):
        assert fine >= price([stage], bandwidth).per_byte * profile.gradients * (1 - 1e-9)


@EVERY
@given(steps())
def test_overlap_never_makes_a_step_longer(
    step: tuple[Predictor, ModelProfile, Plan, Placement],
) -> None:
    predictor, profile, plan, placement = step
    full, none = (
        replay(predictor, profile, replace(plan, overlap=how), placement)
        for how in (Overlap.FULL, Overlap.NONE)
    )
    assert not isinstance(full, Unknown)
    assert not isinstance(none, Unknown)
    assert full <= none * 1.02
