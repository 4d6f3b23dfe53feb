"""The sampler: which setting to try next."""

from itertools import pairwise

import numpy as np

from muster.perf.estimate import Unknown, WhyUnknown
from muster.perf.speed.fitted import FittedSpeed, PlacedSample, fit_placed
from muster.perf.speed.step_form import StepSetting
from support.sampler import Evidence, evidence_of, narrowing, next_sample

SHAPES = ((1,), (2,), (4,), (1, 1), (2, 2), (4, 4), (1, 1, 1), (4, 4, 4), (1,) * 8, (4,) * 8)
CANDIDATES = [StepSetting(shape, batch) for shape in SHAPES for batch in (16, 32, 64, 128)]
NOTHING = Unknown(WhyUnknown.TOO_FEW_POINTS, "")


def measured(setting: StepSetting) -> PlacedSample:
    """A made-up job: computing grows with the batch, synchronising with the ring."""
    devices = setting.devices
    sync = 0.0 if devices == 1 else (0.02 if len(setting.shape) == 1 else 0.1) * (devices - 1) / devices
    return PlacedSample(setting, 0.05 + 0.002 * setting.batch + sync, sync)


def chosen(count: int) -> list[StepSetting]:
    taken: list[StepSetting] = []
    for _ in range(count):
        wanted = next_sample(fit_placed([measured(setting) for setting in taken]), CANDIDATES, taken)
        assert wanted is not None
        taken.append(wanted)
    return taken


def learnt(taken: list[StepSetting]) -> FittedSpeed:
    fitted = fit_placed([measured(setting) for setting in taken])
    assert isinstance(fitted, FittedSpeed)
    return fitted


def mean_variance(evidence: Evidence) -> float:
    p = evidence.predicted
    return float(np.mean(np.einsum("ij,jk,ik->i", p, evidence.covariance, p)))


def test_the_first_sample_is_the_smallest_setting() -> None:
    assert next_sample(NOTHING, CANDIDATES[::-1], []) == StepSetting((1,), 16)


def test_without_a_model_samples_keep_their_distance() -> None:
    taken = [StepSetting((1,), 16)]
    assert next_sample(NOTHING, CANDIDATES, taken) == StepSetting((4,) * 8, 128)


def test_the_same_questions_are_asked_every_time() -> None:
    assert chosen(6) == chosen(6)


def test_no_setting_is_tried_twice_and_settings_differ() -> None:
    taken = chosen(8)
    assert len(set(taken)) == 8
    assert len({setting.shape for setting in taken}) >= 5
    assert len({setting.batch for setting in taken}) >= 2
    assert {len(setting.shape) for setting in taken} >= {1, 2, 8}


def test_when_all_were_tried_there_is_no_next() -> None:
    assert next_sample(learnt(CANDIDATES), CANDIDATES, CANDIDATES) is None


def test_the_promise_is_what_the_variance_falls_by() -> None:
    """The narrowing told beforehand is that of the exact linear update."""
    evidence = evidence_of(learnt(CANDIDATES[:3]), CANDIDATES)
    before, told = mean_variance(evidence), narrowing(evidence)
    for i in (0, 17, 39):
        inverse = np.linalg.inv(evidence.covariance) + evidence.measured[i].T @ evidence.measured[i]
        after = mean_variance(Evidence(evidence.predicted, evidence.measured, np.linalg.inv(inverse)))
        assert np.isclose(before - after, told[i])


def test_each_sample_narrows_and_the_first_ones_most() -> None:
    taken = chosen(9)
    left = [mean_variance(evidence_of(learnt(taken[:count]), CANDIDATES)) for count in (1, 3, 6, 9)]
    assert all(earlier > later for earlier, later in pairwise(left))
    assert left[0] - left[1] > left[2] - left[3]


def test_chosen_samples_narrow_more_than_neighbouring_ones() -> None:
    by_choice = mean_variance(evidence_of(learnt(chosen(6)), CANDIDATES))
    in_a_row = mean_variance(evidence_of(learnt(CANDIDATES[:6]), CANDIDATES))
    assert by_choice < in_a_row / 2


def test_mirror_images_are_equally_good_and_the_earlier_is_taken() -> None:
    mirrored = [*CANDIDATES, StepSetting((1, 2, 4), 64), StepSetting((1, 4, 2), 64)]
    told = narrowing(evidence_of(learnt(chosen(3)), mirrored))
    assert np.isclose(told[-1], told[-2], rtol=1e-6)
    only = [StepSetting((1, 4, 2), 64), StepSetting((1, 2, 4), 64)]
    assert next_sample(learnt(chosen(3)), only, []) == only[0]
