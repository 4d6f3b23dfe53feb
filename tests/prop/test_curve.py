"""Whatever is measured: times are positive, terms are not negative, more samples do not hurt."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.perf.speed.fitted import FittedSpeed, PlacedSample, fit_placed
from muster.perf.speed.step_form import StepSetting
from muster.sim.worlds.curves import CurveKind
from support.optimus_curve import (
    SpeedCurve,
    SpeedSample,
    SpeedSetting,
    features,
    fit_asynchronous,
    fit_synchronous,
)
from support.sampler import next_sample

EVERY = settings(max_examples=60, deadline=None, derandomize=True, database=None)

counts = st.integers(1, 32)
seconds = st.floats(1e-4, 1e3)
speed_samples = st.builds(SpeedSample, counts, counts, st.integers(1, 4096), seconds)
terms = st.tuples(*[st.floats(1e-3, 1.0)] * 5)
places = st.builds(
    StepSetting, st.lists(st.integers(1, 8), min_size=1, max_size=8).map(tuple), st.integers(1, 4096)
)
placed_samples = st.builds(
    lambda setting, step, share: PlacedSample(setting, step, step * share),
    places,
    seconds,
    st.floats(0, 0.95),
)
GRID = [SpeedSetting(p, w, m) for p in (1, 3, 8) for w in (1, 4, 8) for m in (64, 512)]


def sampled(at: list[SpeedSetting], true: tuple[float, ...], noise: np.ndarray) -> list[SpeedSample]:
    steps = features(CurveKind.SYNCHRONOUS, at) @ np.array(true) * noise
    return [
        SpeedSample(s.servers, s.workers, s.batch, float(t)) for s, t in zip(at, steps, strict=True)
    ]


def mean_width(curve: SpeedCurve) -> float:
    estimates = [curve.seconds(setting) for setting in GRID]
    return float(np.mean([(e.high - e.low) / e.mean for e in estimates]))


@EVERY
@given(st.lists(speed_samples, min_size=4, max_size=12))
def test_terms_are_never_negative_and_times_are_positive(samples: list[SpeedSample]) -> None:
    for curve in (fit_synchronous(samples), fit_asynchronous(samples)):
        if isinstance(curve, SpeedCurve):
            assert min(curve.terms) >= 0
            estimate = curve.seconds(samples[0].setting)
            assert 0 <= estimate.low <= estimate.mean <= estimate.high
            assert estimate.mean > 0


@EVERY
@given(terms)
def test_exact_samples_are_predicted_exactly(true: tuple[float, ...]) -> None:
    exact = sampled(GRID, true, np.ones(len(GRID)))
    curve = fit_synchronous(exact[::2])
    assert isinstance(curve, SpeedCurve)
    for sample in exact:
        assert np.isclose(curve.seconds(sample.setting).mean, sample.seconds, rtol=1e-5)


@EVERY
@given(terms, st.integers(0, 2**32 - 1))
def test_more_samples_do_not_widen_on_average(true: tuple[float, ...], seed: int) -> None:
    """On average over eight disturbed runs of the same job."""
    random = np.random.default_rng(seed)
    few: list[float] = []
    many: list[float] = []
    for _ in range(8):
        samples = sampled(GRID, true, np.exp(random.normal(0, 0.05, len(GRID))))
        for widths, some in ((few, samples[::3]), (many, samples)):
            curve = fit_synchronous(some)
            assert isinstance(curve, SpeedCurve)
            widths.append(mean_width(curve))
    assert np.mean(many) <= np.mean(few)


@EVERY
@given(st.lists(placed_samples, min_size=1, max_size=8), places)
def test_any_job_gets_a_positive_time_for_any_setting(
    samples: list[PlacedSample], asked: StepSetting
) -> None:
    fitted = fit_placed(samples)
    assert isinstance(fitted, FittedSpeed)
    estimate = fitted.seconds(asked)
    assert 0 < estimate.low <= estimate.mean <= estimate.high


@EVERY
@given(
    st.lists(placed_samples, min_size=1, max_size=5),
    st.lists(places, min_size=1, max_size=12, unique=True),
)
def test_the_next_sample_is_a_new_candidate(
    samples: list[PlacedSample], candidates: list[StepSetting]
) -> None:
    taken = [sample.setting for sample in samples]
    wanted = next_sample(fit_placed(samples), candidates, taken)
    left = [candidate for candidate in candidates if candidate not in taken]
    assert wanted in left if left else wanted is None
