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


def test_forecasts_still_open_count_as_late() -> None:
    """Of a hundred jobs a third has ended early; the rest is overdue."""
    found = Calibration()
    for job in range(100):
        found.note(job, PastForecast(0.0, SAID, KINDS))
        if job < 33:
            found.came(job, 950.0)
    later = TimeInterval(4000.0, 3900.0, 4100.0)
    assert 2 * 1100.0 < found.corrected(later, 3000.0, KINDS).high - 3000.0 < 4 * 1100.0
