"""Curves of trainings: at most some hundred points of each, however long it was."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, bindparam, delete, select

from muster.store import lists
from muster.store.batch import CurvePoint
from muster.store.schema import curves

MOST = 1_024
"""Points of a curve; beyond that every second one goes, so that a plot keeps its shape."""
OLD = 128
"""Points of a curve once its job has been over for a month."""

_FIELDS = tuple(CurvePoint.__slots__)
_DROP = delete(curves).where(
    curves.c.number == bindparam("of_number"),
    curves.c.what == bindparam("of_what"),
    curves.c.step == bindparam("of_step"),
)
"""Made once: making a statement takes longer than running it."""


class CurveRows:
    """Adds points, and thins a curve whenever it may have become too long."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._added: Counter[int] = Counter()
        """Points of each job since its curves were last looked at."""

    def add(self, connection: Connection, points: Sequence[CurvePoint]) -> None:
        """Store points; each replaces that of its job, kind and step."""
        if not points:
            return
        rows = {(each.number, each.what, each.step): asdict(each) for each in points}
        lists.put(connection, curves, list(rows.values()))
        self._added.update(number for number, _, _ in rows)
        for number in {number for number, _, _ in rows}:
            if self._added[number] > self._most // 2:
                del self._added[number]
                thin(connection, number, self._most)


def thin(connection: Connection, number: int, most: int) -> None:
    """Drop every second point of a job's curves until none is too long; the last stays."""
    query = select(curves.c.what, curves.c.step).where(curves.c.number == number)
    steps: dict[str, list[int]] = {}
    for what, step in connection.execute(query.order_by(curves.c.what, curves.c.step)):
        steps.setdefault(what, []).append(step)
    dropped = [
        {"of_number": number, "of_what": what, "of_step": step}
        for what, known in steps.items()
        for step in _beyond(known, most)
    ]
    if dropped:
        connection.execute(_DROP, dropped)


def _beyond(steps: list[int], most: int) -> Iterable[int]:
    """Return the steps to drop of these, which are in order."""
    every = 1
    while len(steps) / every > most:
        every *= 2
    kept = {*steps[::every], *steps[-1:]}
    return (step for step in steps if step not in kept)


def read(connection: Connection, number: int, after: float) -> list[CurvePoint]:
    """Return the points of a job later than a moment, by kind and step."""
    columns = [curves.c[name] for name in _FIELDS]
    query = select(*columns).where(curves.c.number == number, curves.c.at > after)
    rows = connection.execute(query.order_by(curves.c.what, curves.c.step))
    return [CurvePoint(*row) for row in rows]
