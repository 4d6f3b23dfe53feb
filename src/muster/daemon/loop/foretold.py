"""Forecasts as records have them, and on their way to the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from muster.foresight.play import JobForecast
from muster.foresight.quantiles import TimeInterval
from muster.store.batch import ForecastOutcome, ForecastRow, Note

Times = tuple[float | None, float | None, float | None]
"""The median, None if the interval is too wide for one, and the ends of the interval."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """Forecasts to be held to account, what came of others, and jobs to learn from."""

    made: tuple[ForecastRow, ...] = ()
    outcomes: tuple[ForecastOutcome, ...] = ()
    notes: tuple[Note, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.made or self.outcomes or self.notes)

    def __add__(self, later: "Foretold") -> "Foretold":
        return Foretold(
            (*self.made, *later.made),
            (*self.outcomes, *later.outcomes),
            (*self.notes, *later.notes),
        )


def foretold(forecast: JobForecast) -> Mapping[str, Any]:
    """Return the fields of a record that tell a forecast."""
    # Of what rests on nothing, the ends of the interval say no more than its middle.
    start = _times(forecast.start if forecast.grounded else None, forecast.known_start)
    finish = _times(forecast.finish if forecast.rests else None, forecast.known_finish)
    return {
        "predicted_start": start[0],
        "start_low": start[1],
        "start_high": start[2],
        "predicted_finish": finish[0],
        "finish_low": finish[1],
        "finish_high": finish[2],
        "rests_on": forecast.jobs,
        "preemption": forecast.preempted,
    }


def _times(said: TimeInterval | None, known: TimeInterval | None) -> Times:
    if said is None:
        return None, None, None
    return None if known is None else known.middle, finite(said.low), finite(said.high)


def finite(at: float) -> float | None:
    """Return a time; None for one that never comes."""
    return at if isfinite(at) else None
