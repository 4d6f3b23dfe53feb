"""Forecasts, kept until they come true and after."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete, select, update

from muster.store import lists
from muster.store.batch import ForecastOutcome, ForecastRow
from muster.store.schema import forecasts

_FIELDS = tuple(ForecastRow.__dataclass_fields__)
_COLUMNS = tuple(forecasts.c[name] for name in _FIELDS)


def put(connection: Connection, made: Sequence[ForecastRow]) -> None:
    """Store forecasts; each replaces that of its job, kind and mark."""
    rows = {(each.number, each.what, each.mark): _row(each) for each in made}
    lists.put(connection, forecasts, list(rows.values()))


def score(connection: Connection, outcomes: Iterable[ForecastOutcome]) -> None:
    """Note what came of forecasts; those of which nothing comes are removed."""
    for each in outcomes:
        about = (
            forecasts.c.number == each.number,
            forecasts.c.what == each.what,
            forecasts.c.came.is_(None),
        )
        if each.came is None:
            connection.execute(delete(forecasts).where(*about))
        else:
            connection.execute(update(forecasts).where(*about).values(came=each.came))


def latest(connection: Connection, since: float, pool: str | None, limit: int) -> list[ForecastRow]:
    """Return the latest forecasts that came true, made since a moment; oldest first."""
    query = select(*_COLUMNS).where(forecasts.c.came.is_not(None), forecasts.c.made >= since)
    if pool is not None:
        query = query.where(forecasts.c.pool == pool)
    query = query.order_by(forecasts.c.made.desc(), forecasts.c.number).limit(limit)
    return [ForecastRow(*row) for row in connection.execute(query)][::-1]


def open_ones(connection: Connection) -> list[ForecastRow]:
    """Return the forecasts of which nothing has come yet."""
    query = select(*_COLUMNS).where(forecasts.c.came.is_(None)).order_by(forecasts.c.made)
    return [ForecastRow(*row) for row in connection.execute(query)]


def of_job(connection: Connection, number: int) -> list[ForecastRow]:
    """Return the forecasts of a job, oldest first."""
    query = select(*_COLUMNS).where(forecasts.c.number == number).order_by(forecasts.c.made)
    return [ForecastRow(*row) for row in connection.execute(query)]


def _row(made: ForecastRow) -> lists.Row:
    return {name: getattr(made, name) for name in _FIELDS}
