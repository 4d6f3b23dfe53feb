"""Forecasts corrected by what came of those before them."""

from random import Random

import pytest

from muster.foresight.calibrate import ENOUGH, Calibration, PastForecast
from muster.foresight.quantiles import TimeInterval

SAID = TimeInterval(1000.0, 900.0, 1100.0)
"""Made at 0: in 1000 s, give or take a tenth."""
KINDS = (("pool", True), ())


def _learnt(spread: float, shift: float = 1.0, count: int = 300) -> Calibration:
    """Forecasts of which the outcomes spread by this much."""
    found, random = Calibration(), Random(7)
    for job in range(count):
        found.note(job, PastForecast(0.0, SAID, KINDS))
        found.came(job, shift * 1000.0 * random.lognormvariate(0.0, spread))
    return found


def test_too_narrow_intervals_are_widened_until_eighty_percent_hold() -> None:
    corrected, random = _learnt(0.5).corrected(SAID, 0.0, KINDS), Random(8)
    outcomes = [1000.0 * random.lognormvariate(0.0, 0.5) for _ in range(2000)]
    held = sum(corrected.low <= each <= corrected.high for each in outcomes) / len(outcomes)
    assert 0.75 <= held <= 0.85


def test_a_median_that_is_always_early_is_moved() -> None:
    assert _learnt(0.1, shift=2.0).corrected(SAID, 0.0, KINDS).middle == pytest.approx(2000, rel=0.15)


def test_few_forecasts_correct_nothing() -> None:
    few = _learnt(0.5, count=ENOUGH - 1)
    assert few.corrected(SAID, 0.0, KINDS) == SAID
    assert _learnt(0.5).corrected(SAID, 0.0, (("another", True),)) == SAID


def test_forecasts_still_open_count_as_late_once_their_end_has_passed() -> None:
    """Of a hundred jobs a third has ended early; the rest is overdue."""
    found = Calibration()
    for job in range(100):
        found.note(job, PastForecast(0.0, SAID, KINDS))
        if job < 33:
            found.came(job, 950.0)
    before = found.corrected(SAID, 0.0, KINDS)
    for moment in (1200.0, 1500.0, 2000.0, 3000.0):
        found.advance(moment)
    after = found.corrected(SAID, 0.0, KINDS)
    assert after.high > 1.2 * before.high


def test_one_far_outlier_moves_an_end_no_further_than_any_other() -> None:
    near, far = _learnt(0.1, count=100), _learnt(0.1, count=100)
    for found, came in ((near, 1500.0), (far, 1e9)):
        found.note(1000, PastForecast(0.0, SAID, KINDS))
        found.came(1000, came)
    assert near.corrected(SAID, 0.0, KINDS) == far.corrected(SAID, 0.0, KINDS)


def test_too_wide_intervals_are_narrowed() -> None:
    wide = TimeInterval(1000.0, 100.0, 10_000.0)
    found = Calibration()
    for job in range(300):
        found.note(job, PastForecast(0.0, wide, KINDS))
        found.came(job, 1000.0 * Random(job).lognormvariate(0.0, 0.2))
    told = found.corrected(wide, 0.0, KINDS)
    assert told.high / told.low < 3.0 < wide.high / wide.low


def test_what_vague_forecasts_were_wrong_by_hardly_moves_exact_ones() -> None:
    """A kind holds jobs that nothing is known of and such as tell their progress."""
    vague, found = TimeInterval(10_000.0, 1000.0, 100_000.0), Calibration()
    for job in range(200):
        found.note(job, PastForecast(0.0, vague, KINDS))
        found.came(job, 30_000.0 * Random(job).lognormvariate(0.0, 0.8))
    assert found.corrected(vague, 0.0, KINDS).middle > 1.5 * vague.middle
    assert found.corrected(SAID, 0.0, KINDS).middle < 1.1 * SAID.middle


def test_a_play_that_has_learnt_is_not_moved_for_what_it_was_wrong_by_before() -> None:
    """Users asked for three times what their jobs take, until what is played knew it."""
    found, random = Calibration(), Random(9)
    for job in range(80):
        found.note(job, PastForecast(0.0, SAID, KINDS))
        wrong = 1.0 / 3.0 if job < 40 else 1.0
        found.came(job, wrong * 1000.0 * random.lognormvariate(0.0, 0.1))
    assert found.corrected(SAID, 0.0, KINDS).middle == pytest.approx(1000.0)
