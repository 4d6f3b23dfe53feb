"""Facts, snapshots and notes name jobs by number; they had named them by name."""

from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

AT_ONCE = 5_000
"""Facts that are rewritten together: some 3 MB."""

journal = sa.table("journal", *map(sa.column, ("seq", "job", "number", "body")))
snapshots = sa.table("snapshots", *map(sa.column, ("seq", "body")))
notes = sa.table("notes", *map(sa.column, ("id", "kind", "key", "body")))


def upgrade() -> None:
    """Rewrite them in place; a journal may have been pruned, so nothing can be folded again."""
    connection = op.get_bind()
    for rows in _facts(connection):
        _update(connection, journal, "seq", rows)
    _update(connection, snapshots, "seq", list(_snapshots(connection)))
    _rewrite_notes(connection)
    op.drop_index("journal_job", "journal")
    op.execute("ALTER TABLE journal DROP COLUMN job")


def _update(connection: sa.Connection, table: Any, key: str, rows: list[dict[str, Any]]) -> None:
    """Set the columns named in the rows, by the column `key`, which they have as `at`."""
    if rows:
        columns: dict[str, Any] = {name: sa.bindparam(name) for name in rows[0] if name != "at"}
        where = table.c[key] == sa.bindparam("at")
        connection.execute(sa.update(table).where(where).values(columns), rows)


def _facts(connection: sa.Connection) -> Iterator[list[dict[str, Any]]]:
    query = sa.select(journal.c.seq, journal.c.number, journal.c.body).order_by(journal.c.seq)
    query = query.where(journal.c.job.is_not(None)).limit(AT_ONCE)
    last = 0
    while found := connection.execute(query.where(journal.c.seq > last)).all():
        last = found[-1].seq
        bodies = ((row.seq, row.number, msgspec.json.decode(row.body)) for row in found)
        yield [
            {"at": seq, "body": msgspec.json.encode({**body, "job": number or 0}).decode()}
            for seq, number, body in bodies
            if isinstance(body["job"], str)  # a submission has the whole job
        ]


def _snapshots(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    for seq, body in connection.execute(sa.select(snapshots.c.seq, snapshots.c.body)).all():
        try:
            state = _renumbered(msgspec.msgpack.decode(body))
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
            continue  # nor could it be read before: the one before it is used
        yield {"at": seq, "body": msgspec.msgpack.encode(state)}


def _renumbered(state: dict[str, Any]) -> dict[str, Any]:
    view = state["view"]
    numbers = {name: each["job"]["number"] for name, each in view["jobs"].items()}
    view["jobs"] = {numbers[name]: each for name, each in view["jobs"].items()}
    view["outlooks"] = {}
    gangs = {numbers[name]: gang for name, gang in state["gangs"].items() if name in numbers}
    for number, gang in gangs.items():
        gang["tasks"] = [{**task, "job": number} for task in gang["tasks"]]
        gang["goal"] = _goal(gang, view["jobs"][number])
    return {**state, "gangs": gangs}


def _goal(gang: dict[str, Any], job: dict[str, Any]) -> str:
    """Return what the gang's tasks were being brought to, which was not written before."""
    if gang["stopping"]:
        return "cancel"
    changing = job["phase"] in ("resizing", "migrating") and not gang["live"]
    if changing and any(each["task"]["generation"] < job["generation"] for each in gang["tasks"]):
        return "restart"
    return {"preempting": "preempt", "waiting": "clear"}.get(job["phase"], "run")


def _rewrite_notes(connection: sa.Connection) -> None:
    """Key how far jobs are by number. It is in all of their notes but the last, which is empty."""
    progress = sa.select(notes.c.id, notes.c.key, notes.c.body).where(notes.c.kind == "progress")
    numbers: dict[str, int] = {}
    rows = []
    for each, name, body in connection.execute(progress.order_by(notes.c.id)).all():
        if body:
            numbers[name] = msgspec.json.decode(body)["number"]
        rows.append({"at": each, "key": str(numbers.get(name, 0))})
    _update(connection, notes, "id", rows)
