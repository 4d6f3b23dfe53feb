"""What a record tells of a forecast."""

from dataclasses import replace

from muster.daemon.loop.foretold import foretold
from muster.foresight.play import JobForecast
from muster.foresight.quantiles import TimeInterval

SAID = JobForecast(None, TimeInterval(1200.0, 600.0, 2400.0), own=True)


def test_what_a_forecast_rests_on_tells_its_ends() -> None:
    told = foretold(SAID)
    assert (told["predicted_finish"], told["finish_low"]) == (1200.0, 600.0)


def test_an_interval_that_is_too_wide_still_tells_its_beginning() -> None:
    told = foretold(replace(SAID, finish=TimeInterval(9_000.0, 600.0, 90_000.0)))
    assert (told["predicted_finish"], told["finish_low"]) == (None, 600.0)


def test_a_forecast_that_rests_on_nothing_tells_nothing() -> None:
    told = foretold(replace(SAID, own=False))
    assert {told[name] for name in ("predicted_finish", "finish_low", "finish_high")} == {None}
    waits = replace(SAID, start=TimeInterval(30.0, 10.0, 60.0), grounded=False)
    told = foretold(waits)
    assert {told[name] for name in ("predicted_start", "start_low", "finish_low")} == {None}
