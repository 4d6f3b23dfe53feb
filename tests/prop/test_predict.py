"""Predicted steps of random plans on small random clusters: what must hold whatever the numbers."""

from dataclasses import dataclass, replace
from math import isfinite
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from muster.model.cluster import Cluster
from muster.model.job import Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Overlap, Plan, Sync
from muster.model.profile import ModelProfile
from muster.model.topology import ConfigurationSet, Level, Link, each_bit
from muster.perf.estimate import Estimate
from muster.perf.overlap import BUCKET, pieces
from muster.perf.predict import Breakdown, Neighbour, Predictor
from tests.builders import GB, mixed, placement
from tests.unit.model.shapes import with_nvlink
from tests.unit.perf.shapes import cpu_worker, device_set, model, plan, server

EVERY = settings(max_examples=80, deadline=None, derandomize=True, database=None)
ROUNDING = 1 + 1e-9

SLOW = replace(device_set("b", devices=4, speed=0.5), nic=Link(3e9, 5e-6))
KINDS = [
    device_set(),
    device_set("c", devices=2),
    with_nvlink(device_set("d"), (0x0F, 0xF0), Level.SOCKET),
    SLOW,
]


@dataclass(frozen=True)
class Asked:
    """A question for the predictor."""

    cluster: Cluster
    profile: ModelProfile
    plan: Plan
    placement: Placement

    def seconds(self, **changed: Any) -> float:
        """The answer's mean, after some changes to the question."""
        asked = replace(self, **changed)
        found = Predictor(asked.cluster).step_time(asked.profile, asked.plan, asked.placement)
        assert isinstance(found, Estimate), found
        return found.mean


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Two to five nodes of one or two kinds, in up to three racks and two domains."""
    first, second = draw(st.sampled_from(KINDS)), draw(st.sampled_from(KINDS))
    racks = draw(st.integers(1, 3))
    domains = draw(st.integers(1, min(2, racks)))
    counts = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    return mixed((counts[0], first), (counts[1], second), racks=racks, domains=domains)


@st.composite
def placements(draw: st.DrawFn, there: Cluster, sync: Sync) -> Placement:
    """Workers on some devices or cores of some nodes, and servers where parameters lie there."""
    tasks: list[tuple[str, int]] = []
    for node in there.nodes:
        bits = draw(st.integers(0, there.configuration_of(node).all_devices))
        if bits and draw(st.booleans()):
            tasks.append((node.name, bits))
        else:
            tasks += [(node.name, 1 << device) for device in each_bit(bits)]
    names = [node.name for node in there.nodes]
    if not tasks or draw(st.integers(0, 5)) == 0:
        tasks.append((draw(st.sampled_from(names)), 0))
    placed = placement(
        *(
            (name, bits) if bits else cpu_worker(name, i, memory=64 * GB)
            for i, (name, bits) in enumerate(tasks)
        )
    )
    if sync is not Sync.DEDICATED:
        return placed
    where = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    return placed.with_slots(server(name, i, memory=64 * GB) for i, name in enumerate(where))


@st.composite
def profiles(draw: st.DrawFn) -> ModelProfile:
    """A few tensors of whole pieces, so that more bytes do not change which go together."""
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    per_sample = draw(st.floats(1e-6, 1e-2))
    return model(*(count * BUCKET for count in counts), per_sample=per_sample)


@st.composite
def questions(draw: st.DrawFn, there: Cluster | None = None) -> Asked:
    """A question about one job on a cluster."""
    there = draw(clusters()) if there is None else there
    sync = draw(st.sampled_from(list(Sync)))
    placed = draw(placements(there, sync))
    owning = placed.count(Role.SERVER if sync is Sync.DEDICATED else Role.WORKER)
    weights = draw(st.lists(st.integers(1, 5), min_size=owning, max_size=owning))
    owners = tuple(weight / sum(weights) for weight in weights) if draw(st.booleans()) else ()
    how = plan(sync, draw(st.sampled_from(list(Overlap))), owners=owners)
    return Asked(there, draw(profiles()), how, placed)


@EVERY
@given(questions())
def test_every_sound_question_has_an_answer_with_an_interval(asked: Asked) -> None:
    found = Predictor(asked.cluster).step_time(asked.profile, asked.plan, asked.placement)
    assert isinstance(found, Estimate)
    assert 0 < found.low <= found.mean <= found.high
    assert isfinite(found.high)


@EVERY
@given(questions())
def test_a_step_takes_at_least_its_computing_and_at_most_all_one_after_the_other(asked: Asked) -> None:
    parts = Predictor(asked.cluster).breakdown(asked.profile, asked.plan, asked.placement)
    assert isinstance(parts, Breakdown)
    total = asked.seconds()
    assert parts.compute <= total * ROUNDING
    assert total <= (parts.compute + parts.transfers) * ROUNDING


@EVERY
@given(questions())
def test_sending_while_computing_is_never_slower_than_sending_after(asked: Asked) -> None:
    full, barrier, none = (
        asked.seconds(plan=replace(asked.plan, overlap=how))
        for how in (Overlap.FULL, Overlap.BARRIER, Overlap.NONE)
    )
    assert full <= none * ROUNDING
    if asked.plan.sync in (Sync.RING, Sync.HIERARCHICAL):
        assert full == barrier


@EVERY
@given(questions(), st.integers(0, 3), st.integers(1, 4))
def test_more_bytes_are_never_faster(asked: Asked, which: int, more: int) -> None:
    tensors = list(asked.profile.tensors)
    at = which % len(tensors)
    tensors[at] = replace(tensors[at], bytes=tensors[at].bytes + more * BUCKET)
    larger = replace(asked.profile, tensors=tuple(tensors))
    assert asked.seconds() <= asked.seconds(profile=larger) * ROUNDING


def wider(there: Cluster, which: str, factor: float, *, first: bool) -> Cluster:
    """The cluster with all links of one kind this many times as wide; or those of one set of nodes."""
    if which in ("RACK", "DOMAIN", "CLUSTER"):
        level = Level[which]
        return replace(there, links={**there.links, level: _times(there.links[level], factor)})
    kinds = dict(there.configurations)
    for name in list(kinds)[: 1 if first else None]:
        kinds[name] = _wider_kind(kinds[name], which, factor)
    return replace(there, configurations=kinds)


def _wider_kind(kind: ConfigurationSet, which: str, factor: float) -> ConfigurationSet:
    if which == "nic":
        return replace(kind, nic=_times(kind.nic, factor))
    if which == "host":
        return replace(kind, host=_times(kind.host, factor))
    layers = tuple(
        replace(layer, link=_times(layer.link, factor)) if layer.level.name == which else layer
        for layer in kind.layers
    )
    return replace(kind, layers=layers)


def _times(link: Link, factor: float) -> Link:
    return Link(link.bandwidth * factor, link.latency)


ALL_LINKS = ["nic", "host", "SWITCH", "SOCKET", "NODE", "RACK", "DOMAIN", "CLUSTER"]


@EVERY
@given(questions(), st.sampled_from(ALL_LINKS), st.floats(1.0, 20.0), st.booleans())
def test_more_bandwidth_is_never_slower(asked: Asked, which: str, factor: float, first: bool) -> None:
    faster = asked.seconds(cluster=wider(asked.cluster, which, factor, first=first))
    assert faster <= asked.seconds() * ROUNDING


@EVERY
@given(questions())
def test_the_same_nodes_farther_apart_are_never_faster(asked: Asked) -> None:
    nodes = asked.cluster.nodes
    one_rack = replace(
        asked.cluster, nodes=tuple(replace(node, rack="r", domain="d") for node in nodes)
    )
    one_domain = replace(asked.cluster, nodes=tuple(replace(node, domain="d") for node in nodes))
    found = [asked.seconds(cluster=there) for there in (one_rack, one_domain, asked.cluster)]
    assert found[0] <= found[1] * ROUNDING
    assert found[1] <= found[2] * ROUNDING


@EVERY
@given(questions(), st.randoms(use_true_random=False))
def test_names_of_nodes_racks_and_domains_do_not_matter(asked: Asked, random: Random) -> None:
    names = [node.name for node in asked.cluster.nodes]
    shuffled = [f"x{i}" for i in range(len(names))]
    random.shuffle(shuffled)
    new = dict(zip(names, shuffled, strict=True))
    nodes = tuple(
        replace(node, name=new[node.name], rack=f"z{9 - int(node.rack[1:])}", domain=f"y{node.domain}")
        for node in asked.cluster.nodes
    )
    slots = tuple(replace(slot, node=new[slot.node]) for slot in asked.placement.slots)
    moved = asked.seconds(cluster=replace(asked.cluster, nodes=nodes), placement=Placement(slots))
    assert moved == pytest.approx(asked.seconds(), rel=1e-9)


@EVERY
@given(questions())
def test_the_order_in_which_tasks_are_listed_does_not_matter(asked: Asked) -> None:
    # A ring takes nodes as they are listed; a port adds to the latency of the hops that meet there.
    assume(all(slot.bits or slot.role is Role.SERVER for slot in asked.placement.slots))
    turned: tuple[Slot, ...] = asked.placement.slots[::-1]
    assert asked.seconds(placement=Placement(turned)) == pytest.approx(asked.seconds(), rel=1e-9)


@EVERY
@given(st.data())
def test_a_kept_answer_is_the_one_worked_out_anew(data: st.DataObject) -> None:
    there = data.draw(clusters())
    predictor = Predictor(there)
    for asked in data.draw(st.lists(questions(there), min_size=1, max_size=3)):
        question = asked.profile, asked.plan, asked.placement
        first = predictor.step_time(*question)
        assert predictor.step_time(*question) == first
        assert Predictor(there).step_time(*question) == first


@EVERY
@given(st.data())
def test_a_neighbour_never_makes_a_job_faster_nor_much_slower_than_sharing_everything(
    data: st.DataObject,
) -> None:
    there = data.draw(clusters())
    mine, other = data.draw(questions(there)), data.draw(questions(there))
    neighbour = Neighbour(other.profile, other.plan, other.placement)
    question = mine.profile, mine.plan, mine.placement
    both = Predictor(there).step_time(*question, [neighbour])
    assert isinstance(both, Estimate)
    alone = mine.seconds()
    assert alone <= both.mean * ROUNDING
    assert both.mean <= 2 * alone * ROUNDING


@EVERY
@given(profiles(), st.floats(0.0, 1.0), st.floats(0.0, 1e-8), st.floats(0.0, 0.1))
def test_pieces_end_as_one_queue_would_end_them(
    profile: ModelProfile, compute: float, per_byte: float, per_piece: float
) -> None:
    some = pieces(profile)
    ends = 0.0
    later = [*some.bytes_on[1:], 0.0]
    for ready, total, rest in zip(some.ready, some.bytes_on, later, strict=True):
        ends = max(ends, compute * ready) + per_byte * (total - rest) + per_piece
    assert some.done(compute, per_byte, per_piece) == pytest.approx(max(compute, ends))
