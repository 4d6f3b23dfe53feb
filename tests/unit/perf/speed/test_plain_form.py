"""The form in plain numbers is that in arrays, from one sample to where arrays take over."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.perf.speed import fitted
from muster.perf.speed.fitted import MANY, PRIOR, FittedSpeed, PlacedSample, fit_placed
from muster.perf.speed.plain_form import PlainSetting, plain_slopes, plain_times
from muster.perf.speed.step_form import NAMES, Arrays, Reference, StepSetting, times

SHAPES = [(1,), (2,), (8,), (1, 1), (4, 2), (1, 1, 1), (4,) * 8]
UNIT = Reference(seconds=0.2, batch=8)
FACTORS = st.floats(-0.3, 0.3)
settings = st.builds(StepSetting, st.sampled_from(SHAPES), st.integers(1, 512))


@given(
    st.lists(st.floats(-4.0, 4.0), min_size=len(NAMES), max_size=len(NAMES)),
    st.lists(st.tuples(settings, FACTORS, FACTORS), min_size=1, max_size=4),
)
def test_times_and_derivatives_are_those_of_arrays(
    moved: list[float], asked: list[tuple[StepSetting, float, float]]
) -> None:
    unknowns = PRIOR.middles + np.array(moved)
    at = Arrays.of([setting for setting, _, _ in asked])
    computing, sync = [each for _, each, _ in asked], [each for _, _, each in asked]
    known = times(unknowns, at, UNIT, np.array(computing), np.array(sync))
    found = plain_times(unknowns, PlainSetting.all_of(at), UNIT, computing, sync)
    assert found.step == pytest.approx(known.step, rel=1e-12, abs=1e-12)
    assert found.compute == pytest.approx(known.compute, rel=1e-12, abs=1e-12)
    for i, each in enumerate(plain_slopes(found)):
        assert each.step_by == pytest.approx(known.step_by[i], rel=1e-9, abs=1e-12)
        assert each.compute_by == pytest.approx(known.compute_by[i, :3], rel=1e-9, abs=1e-12)
        assert each.by_compute == pytest.approx(known.by_compute[i], rel=1e-9, abs=1e-12)
        assert each.by_sync == pytest.approx(known.by_sync[i], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("count", [1, 2, MANY - 1])
def test_a_fit_to_a_few_samples_is_that_of_arrays(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [StepSetting(shape, batch) for batch in (8, 64) for shape in SHAPES]
    samples = [PlacedSample(each, 0.3 + 0.1 * i, 0.05) for i, each in enumerate(every[:count])]
    plain = fit_placed(samples)
    monkeypatch.setattr(fitted, "MANY", 0)
    arrays = fit_placed(samples)
    assert isinstance(plain, FittedSpeed)
    assert isinstance(arrays, FittedSpeed)
    assert plain.found == pytest.approx(arrays.found, rel=1e-9)
    assert plain.covariance == pytest.approx(arrays.covariance, rel=1e-9)
