"""A plan never flips back and forth, whatever the models say and whatever is measured. Placements that
count as alike take the same time."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle.plans import CLEARLY, DWELL, Plans
from muster.model.plan import ChosenPlan, Sync
from muster.model.view import JobState
from muster.perf.history.links import LinkHistory
from muster.perf.predict import Knowledge, Predictor
from muster.perf.shape import symmetry
from muster.planner.placed import ways
from tests.builders import cluster, job, placement, running
from tests.unit.core.test_plans import SHAPE, equal, spread_over
from tests.unit.perf.shapes import device_set, model

FACTORS = st.floats(0.1, 10.0)
"""By how much models lie."""
CARDS = st.lists(st.sampled_from((0.1e9, 0.25e9, 0.6e9, 1.25e9)), min_size=4, max_size=4)


@given(
    cards=CARDS, lies=st.tuples(FACTORS, FACTORS), noise=st.lists(st.floats(0.97, 1.03), min_size=30)
)
@settings(max_examples=40, deadline=None)
def test_it_settles_on_the_better_of_what_it_has_measured(
    cards: list[float], lies: tuple[float, float], noise: list[float]
) -> None:
    """True steps differ from the models' by these lies; each cycle measures the plan in force."""
    links = LinkHistory(nodes={f"n{i}": rate for i, rate in enumerate(cards)})
    plans = Plans(equal(), Knowledge(links=links))
    state = running(job("a", 4), spread_over(4))
    first = plans.choose(state.job, SHAPE, spread_over(4))
    assert first is not None
    prices = {first.sync: first.step, first.runner_up: first.runner_up_step or 0.0}
    truth = {
        sync: prices[sync] * lie for sync, lie in zip((Sync.RING, Sync.SHARDED), lies, strict=True)
    }
    state = replace(state, plan=first, planned=0.0)
    changes, now = 0, 0.0
    measured: dict[Sync, float] = {}
    for wobble in noise:
        assert state.plan is not None
        measured[state.plan.sync] = truth[state.plan.sync] * wobble
        shape = replace(SHAPE, measured=tuple((s.value, t) for s, t in sorted(measured.items())))
        now += 64 * DWELL
        better = plans.better(state, shape, 1e6, now)
        if better is not None:
            changes += 1
            state = _after(state, better, now)
    assert changes <= 2, "at most there, and back once it turned out worse"
    assert state.plan is not None
    assert truth[state.plan.sync] <= min(truth[sync] for sync in measured) / CLEARLY * 1.07


def _after(state: JobState, plan: ChosenPlan, now: float) -> JobState:
    return replace(state, plan=plan, planned=now)


DEVICES = 8
KIND = device_set(devices=DEVICES, sockets=2, switches=4)
HERE = cluster(2, KIND)
DEEP = model(40_000_000, 10_000_000, per_sample=1e-4)
PREDICTOR = Predictor(HERE)


@given(
    dealt=st.permutations(range(DEVICES)).map(tuple),
    tasks=st.integers(2, 4),
    higher=st.integers(0, DEVICES - 1),
    switches=st.lists(st.integers(0, 1), min_size=4, max_size=4),
)
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
def test_placements_that_differ_by_equal_subtrees_are_of_one_class_and_take_the_same_time(
    dealt: tuple[int, ...], tasks: int, higher: int, switches: list[int]
) -> None:
    """Tasks of one device each; sockets, switches and the devices of some switches are swapped."""
    one = dealt[:tasks]
    other = tuple((device ^ switches[device // 2]) ^ higher for device in one)
    classes = {symmetry(KIND.layers, [1 << device for device in each]) for each in (one, other)}
    assert len(classes) == 1
    assert _steps(one) == pytest.approx(_steps(other))


def test_equal_subtrees_swapped_are_one_class_and_others_are_not() -> None:
    """Switches of two devices, sockets of two switches."""
    same = {symmetry(KIND.layers, parts) for parts in ((1, 2), (2, 1), (16, 32), (64, 128))}
    apart = {symmetry(KIND.layers, parts) for parts in ((1, 2), (1, 4), (1, 16))}
    assert (len(same), len(apart)) == (1, 3)


def _steps(devices: tuple[int, ...]) -> list[float]:
    """Return s of a step of each way, for tasks on these devices of one node and two of another."""
    places = [("n0", 1 << bit) for bit in devices] + [("n1", 1), ("n1", 16)]
    found = ways(PREDICTOR, job("a", len(places)), DEEP, 64, placement(*places))
    return [way.seconds for way in found]
