"""How forecasts came true: coverage, error and reliability."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, log
from statistics import NormalDist, mean, median

from muster.foresight.kept import KeptForecast
from muster.foresight.marks import MARKS
from muster.foresight.quantiles import HIGH
from muster.model.duration import clock

HORIZONS = (60.0, 600.0, 3600.0, 6 * 3600.0, 86_400.0, inf)
"""s that were left when a forecast was made: limits of the groups."""
PARTS = tuple(n / 10 for n in range(1, 10))
"""Quantiles at which reliability is told."""
LEAST = 1.0
"""s: times nearer than this count as this far away."""
_NORMAL = NormalDist()
_UNIT = _NORMAL.inv_cdf(HIGH)


@dataclass(frozen=True, slots=True)
class Scored:
    """Forecasts of one group; see `wire.foresight_records.AccuracyGroup`."""

    by: str
    name: str
    forecasts: int
    covered: float
    early: float
    late: float
    error: float
    bias: float
    width: float


def score(kept: Sequence[KeptForecast]) -> list[Scored]:
    """Score forecasts that came true: all, by when they were made, horizon, pool and kind."""
    if not kept:
        return []
    groups = [_scored("all", "all", kept)]
    groups += _by("made", kept, lambda each: each.mark, MARKS)
    groups += _by("horizon", kept, _horizon, [_horizon_name(at) for at in range(len(HORIZONS))])
    groups += _by("pool", kept, lambda each: each.pool, sorted({each.pool for each in kept}))
    groups += _by("kind", kept, _kind, ("own progress", "similar jobs"))
    return groups


def reliability(kept: Iterable[KeptForecast]) -> list[tuple[float, float]]:
    """Return for each decile the part of the outcomes that came before it.

    Between the quantiles that are told a forecast is taken as normal in the logarithm of time."""
    places = [_place(each) for each in kept]
    if not places:
        return []
    return [(part, mean(place <= part for place in places)) for part in PARTS]


def _by(
    by: str, kept: Sequence[KeptForecast], name_of: Callable[[KeptForecast], str], names: Iterable[str]
) -> Iterator[Scored]:
    for name in names:
        found = [each for each in kept if name_of(each) == name]
        if found:
            yield _scored(by, name, found)


def _scored(by: str, name: str, kept: Sequence[KeptForecast]) -> Scored:
    places = [each.said.place_of(_came(each)) for each in kept]
    errors = [_error(each) for each in kept]
    return Scored(
        by,
        name,
        len(kept),
        places.count("within") / len(kept),
        places.count("early") / len(kept),
        places.count("late") / len(kept),
        median(map(abs, errors)),
        median(errors),
        median(_left(each, each.said.high) / _left(each, each.said.low) for each in kept),
    )


def _came(kept: KeptForecast) -> float:
    return inf if kept.came is None else kept.came


def _left(kept: KeptForecast, at: float) -> float:
    """Return the s from when it was made."""
    return max(at - kept.made, LEAST)


def _error(kept: KeptForecast) -> float:
    return (kept.said.middle - _came(kept)) / _left(kept, _came(kept))


def _horizon(kept: KeptForecast) -> str:
    left = _left(kept, _came(kept))
    return _horizon_name(next(at for at, limit in enumerate(HORIZONS) if left <= limit))


def _horizon_name(at: int) -> str:
    limit = HORIZONS[at]
    return f"over {clock(HORIZONS[at - 1])}" if limit == inf else f"up to {clock(limit)}"


def _kind(kept: KeptForecast) -> str:
    return "similar jobs" if kept.rests_on else "own progress"


def _place(kept: KeptForecast) -> float:
    """Return the quantile at which the outcome lay."""
    came, middle, low, high = (
        log(_left(kept, at)) for at in (_came(kept), kept.said.middle, kept.said.low, kept.said.high)
    )
    width = high - middle if came > middle else middle - low
    off = came - middle
    if width <= 0.0:
        return 0.5 if abs(off) < 0.01 else float(off > 0)
    return _NORMAL.cdf(_UNIT * off / width)
