"""Intervals, and when they say nothing."""

from muster.foresight.quantiles import TimeInterval, interval


def test_the_interval_holds_eighty_of_a_hundred() -> None:
    found = interval([float(i) for i in range(1, 100)])
    assert (found.low, found.middle, found.high) == (10.0, 50.0, 90.0)


def test_an_interval_over_a_factor_of_twenty_is_unknown() -> None:
    assert TimeInterval(5000.0, 1600.0, 13_000.0).is_known(now=1000.0)
    assert not TimeInterval(5000.0, 1600.0, 13_001.0).is_known(now=1000.0)


def test_what_is_near_is_known_and_nine_seconds_to_a_quarter_of_an_hour_is_not() -> None:
    assert TimeInterval(12.0, 0.0, 30.0).is_known(now=0.0)
    assert TimeInterval(100.0, 9.0, 200.0).is_known(now=0.0)
    assert not TimeInterval(300.0, 9.0, 881.0).is_known(now=0.0)


def test_an_end_is_told_not_before_its_start() -> None:
    start, finish = TimeInterval(60.0, 20.0, 400.0), TimeInterval(50.0, 30.0, 300.0)
    assert finish.not_before(start) == TimeInterval(60.0, 30.0, 400.0)
    assert start.place_of(10.0) == "early" and start.place_of(401.0) == "late"
