"""What prunes the search never prunes a plan that is better than its bound says."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.cluster import Cluster, Node
from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.plan import Sync
from muster.model.profile import LayerType, ModelProfile, Tensor
from muster.model.topology import Level, Link
from muster.perf.estimate import Unknown
from muster.perf.overlap import pieces
from muster.perf.predict import Predictor
from muster.planner.bounds import StepBounds
from muster.planner.candidates import Family, PlacedPlan, Workshop
from muster.planner.choose import families
from muster.planner.layout import Layout, kinds_of, layouts
from tests.builders import node_set

EVERY = settings(max_examples=80, deadline=None, derandomize=True, database=None)
MB = 10**6
LINKS = {Level.RACK: Link(1.25e9, 2e-5), Level.DOMAIN: Link(2e9, 5e-5), Level.CLUSTER: Link(4e9, 1e-4)}


@st.composite
def searches(draw: st.DrawFn) -> tuple[Predictor, Job, ModelProfile, Layout]:
    """A job, a small mixed cluster, and one layout of the job there."""
    cards = [draw(st.sampled_from([6e8, 1.25e9])) for _ in range(3)]
    kinds = [
        replace(node_set(f"k{i}", devices=devices), nic=Link(card, 1e-5))
        for i, (devices, card) in enumerate(zip((0, 1, 4), cards, strict=True))
    ]
    nodes = tuple(
        Node(f"n{i}", kind.name, f"r{draw(st.integers(0, 1))}", "d", kind.all_devices, 32_000, 0)
        for i, kind in enumerate(k for k in kinds for _ in range(draw(st.integers(1, 3))))
    )
    sizes = draw(st.lists(st.integers(1, 80), min_size=1, max_size=8))
    tensors = tuple(Tensor(f"t{i}", s * MB, (i + 1) / len(sizes)) for i, s in enumerate(sizes))
    layers = ((LayerType.CONVOLUTION, 1.0),)
    profile = ModelProfile("m", tensors, draw(st.floats(1e8, 1e11)), MB, layers, 10**6, 10**5, 32)
    spec = RoleSpec(Role.WORKER, Need(1, 1_000), 1, 1, 100)
    job = Job("j", roles=(spec,), model=profile, batch=draw(st.sampled_from([64, 100, 333])))
    on = Cluster("c", {kind.name: kind for kind in kinds}, nodes, LINKS)
    found = list(layouts(kinds_of(on, ["k1", "k2"]), 1, 100))
    return Predictor(on), job, profile, draw(st.sampled_from(found))


def candidates(workshop: Workshop, layout: Layout, family: Family, batch: int) -> list[PlacedPlan]:
    placed = workshop.workers(layout, batch, family)
    if placed is None:
        return []
    if family.sync is Sync.DEDICATED:
        nodes = workshop.server_nodes(placed, apart=family.apart)
        most = workshop.server_range(nodes)[1]
        return [workshop.dedicated(placed, nodes, count) for count in range(1, most + 1)]
    if family.sync is Sync.SHARDED:
        return [workshop.sharded(placed)]
    return [workshop.plan(placed, family.sync)]


@EVERY
@given(searches())
def test_no_plan_is_faster_than_the_bounds_of_its_layout_and_family(
    search: tuple[Predictor, Job, ModelProfile, Layout],
) -> None:
    predictor, job, profile, layout = search
    assert job.batch is not None
    workshop = Workshop(predictor, job, profile)
    bounds = StepBounds(workshop, pieces(profile))
    for family in families(layout, job):
        compute = bounds.compute(layout, job.batch, updates=family.updates)
        assert not isinstance(compute, Unknown)
        least = bounds.least(layout, compute)
        rough = bounds.rough(layout, family, compute)
        fine = bounds.fine(layout, family, compute)
        for made in candidates(workshop, layout, family, job.batch):
            step = predictor.step_time(profile, made.plan, made.placement)
            assert not isinstance(step, Unknown)
            for bound in (least, rough, fine):
                assert bound <= step.mean * (1 + 1e-6), (family, bound, step.mean)


@EVERY
@given(searches())
def test_a_finer_bound_is_never_below_the_rougher_one(
    search: tuple[Predictor, Job, ModelProfile, Layout],
) -> None:
    predictor, job, profile, layout = search
    assert job.batch is not None
    bounds = StepBounds(Workshop(predictor, job, profile), pieces(profile))
    for family in families(layout, job):
        compute = bounds.compute(layout, job.batch, updates=family.updates)
        assert not isinstance(compute, Unknown)
        assert bounds.rough(layout, family, compute) <= bounds.fine(layout, family, compute) + 1e-12
