"""Forecasts held to account: kept in the store, scored when a job starts and ends."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf

from muster.daemon.foresight.messages import RememberedPast
from muster.daemon.foresight.past_notes import KIND, past_jobs
from muster.daemon.loop.foretold import finite
from muster.foresight.kept import BEGIN, FINISH, KeptForecast
from muster.foresight.past import KEPT
from muster.foresight.quantiles import TimeInterval
from muster.model.event import Cancelled, Ended, Skipped, StartBegun
from muster.model.task import Fact
from muster.store.batch import ForecastOutcome, ForecastRow
from muster.store.store import Store
from muster.wire.api.records import OVER

SCORED = 2_000
"""Forecasts that came true which a process starts with."""
TOLD = ("succeeded", "failed")
"""Outcomes that a forecast is held to: whoever stops a job ends its forecasts, too."""


def row_of(kept: KeptForecast) -> ForecastRow:
    """Return a forecast as it is stored."""
    said, raw = kept.said, kept.raw
    return ForecastRow(
        kept.number,
        kept.what,
        kept.mark,
        kept.made,
        finite(said.low),
        finite(said.middle),
        finite(said.high),
        finite(raw.low),
        finite(raw.middle),
        finite(raw.high),
        kept.pool,
        kept.waited,
        kept.rests_on,
        kept.came,
    )


def kept_of(row: ForecastRow) -> KeptForecast:
    """Return a stored forecast."""
    said = TimeInterval(*(_time(each) for each in (row.middle, row.low, row.high)))
    raw = TimeInterval(*(_time(each) for each in (row.raw_middle, row.raw_low, row.raw_high)))
    about = row.pool, bool(row.waited), row.rests_on, row.came
    return KeptForecast(row.number, row.what, row.mark, row.made, said, raw, *about)


def _time(at: float | None) -> float:
    return inf if at is None else at


def outcomes(facts: Iterable[Fact]) -> Iterator[ForecastOutcome]:
    """Yield what these facts make of forecasts."""
    for fact in facts:
        if isinstance(fact, StartBegun):
            yield ForecastOutcome(fact.job, BEGIN, fact.at)
        elif isinstance(fact, Ended):
            yield ForecastOutcome(fact.job, FINISH, fact.at)
        elif isinstance(fact, Cancelled | Skipped):
            yield ForecastOutcome(fact.job, BEGIN, None)
            yield ForecastOutcome(fact.job, FINISH, None)


def remembered(store: Store, live: Collection[int], began: float) -> RememberedPast:
    """Read what a process starts with; forecasts that came true unseen are scored first.

    `began`: s since when the daemon has followed, where the store knows of no job before: that none
    came until the first one says how often they come, and the first one is one of them."""
    unseen = list(_unseen(store, live))
    if unseen:
        store.score_forecasts(unseen)
    rows = [*store.forecasts(limit=SCORED), *store.open_forecasts()]
    jobs = tuple(past_jobs(store.notes(KIND, KEPT)))
    since = min((began, *(each.submitted for each in jobs)))
    return RememberedPast(since, jobs, tuple(map(kept_of, rows)))


def _unseen(store: Store, live: Collection[int]) -> Iterator[ForecastOutcome]:
    for row in store.open_forecasts():
        record = store.job(row.number)
        if record is None:
            yield ForecastOutcome(row.number, row.what, None)
        elif row.what == BEGIN and record.started is not None:
            yield ForecastOutcome(row.number, BEGIN, record.started)
        elif record.status in OVER and row.number not in live:
            came = record.ended if record.status in TOLD and row.what == FINISH else None
            yield ForecastOutcome(row.number, row.what, came)


def scored(kept: Sequence[KeptForecast], outcome: ForecastOutcome) -> Iterator[tuple[str, str, str]]:
    """Yield what, mark and place of each forecast that an outcome decides."""
    if outcome.came is None:
        return
    for each in kept:
        if each.what == outcome.what:
            yield each.what, each.mark, each.said.place_of(outcome.came)
