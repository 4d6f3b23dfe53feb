"""The store: a journal of facts, and what is needed to list, page and look up. SQLite or PostgreSQL.

Calls wait for the database; any thread may make them. Everything written is committed on return.
"""

from collections import Counter
from collections.abc import Iterator

from sqlalchemy import Connection, delete, func, select

from muster.store import journal, lists, tokens
from muster.store.batch import Batch, Journalled, Note, Snapshot
from muster.store.database import Database
from muster.store.errors import UnwritableError
from muster.store.schema import jobs, keys, notes, predictions, settings, snapshots
from muster.wire.records import JobRecord, PredictionRecord, TokenRecord

KEEP_EVENTS = 1_000_000
"""Facts kept behind the older snapshot, for people to look at; some 120 to 400 MB."""
KEEP_NOTES = 20_000
"""Notes kept of each kind."""
NOTES_BETWEEN = 1_000
"""Notes of a kind that are written before those beyond the number to keep are looked for again."""
READ_AT_ONCE = 2_000
"""Facts read with one question: some 1 MB."""
SNAPSHOTS = 2
"""Snapshots kept: the last one, and the one before it in case the last cannot be read."""


class Store:
    """A database that is open, at the newest tables."""

    def __init__(
        self, database: Database, *, keep_events: int = KEEP_EVENTS, keep_notes: int = KEEP_NOTES
    ) -> None:
        self._database = database
        self._keep_events = keep_events
        self._keep_notes = keep_notes
        self._unpruned: dict[str, int] = {}
        """Notes of each kind since those too many were removed."""

    def write(self, batch: Batch) -> tuple[int, int]:
        """Store a batch, whole or not at all. The numbers of its first and last fact; without facts
        the first is one above the last."""
        facts = journal.prepared(batch.facts)
        rows = lists.job_rows(batch.records)
        made = lists.prediction_rows(batch.predictions)
        with self._database.writing() as connection:
            span = journal.append(connection, facts)
            lists.put(connection, jobs, rows)
            lists.add(connection, keys, lists.key_rows(batch.keys))
            lists.put(connection, predictions, made)
            lists.add(connection, notes, lists.note_rows(batch.notes))
            self._prune_notes(connection, batch.notes)
        return span

    def snapshot(self, seq: int, body: bytes) -> None:
        """Store a state, and remove older snapshots and facts that nobody needs."""
        with self._database.writing() as connection:
            if not 0 <= seq <= journal.last(connection):
                raise UnwritableError(f"a snapshot of fact {seq}, which is not in the journal")
            lists.put(connection, snapshots, [{"seq": seq, "body": body}])
            newest = select(snapshots.c.seq).order_by(snapshots.c.seq.desc())
            kept = connection.scalars(newest.limit(SNAPSHOTS)).all()
            if len(kept) == SNAPSHOTS:
                connection.execute(delete(snapshots).where(snapshots.c.seq < kept[-1]))
                journal.prune(connection, kept[-1] - self._keep_events)

    def latest(self, before: int | None = None) -> Snapshot | None:
        """The last snapshot; or, where that cannot be read, the one before its number."""
        query = select(snapshots.c.seq, snapshots.c.body).order_by(snapshots.c.seq.desc()).limit(1)
        if before is not None:
            query = query.where(snapshots.c.seq < before)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else Snapshot(row.seq, row.body)

    def facts(self, after: int = 0, limit: int | None = None) -> Iterator[Journalled]:
        """Facts after a number, in order, read as they are asked for."""
        while limit is None or limit > 0:
            size = READ_AT_ONCE if limit is None else min(limit, READ_AT_ONCE)
            with self._database.reading() as connection:
                found = journal.read(connection, after, size)
            yield from found
            if len(found) < size:
                return
            after = found[-1].seq
            limit = None if limit is None else limit - size

    def last_seq(self) -> int:
        """The number of the last fact; 0: there is none."""
        with self._database.reading() as connection:
            return journal.last(connection)

    def changes(
        self, after: int | None, number: int | None = None, limit: int = 500
    ) -> list[Journalled]:
        """Facts of one job or all, with the jobs' names, oldest first: the first ones after a number,
        or (None) the last ones."""
        with self._database.reading() as connection:
            return journal.changes(connection, after, number, limit)

    def jobs(
        self,
        *,
        statuses: tuple[str, ...] = (),
        user: str | None = None,
        users_or_pools: tuple[str, tuple[str, ...]] | None = None,
        pool: str | None = None,
        name: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[JobRecord]:
        """Jobs, newest first. `before`: the last number of the page before. `users_or_pools`: those of
        this user, and whoever's in these pools."""
        with self._database.reading() as connection:
            return lists.page(
                connection,
                statuses=statuses,
                user=user,
                users_or_pools=users_or_pools,
                pool=pool,
                name=name,
                before=before,
                limit=limit,
            )

    def job(self, number: int) -> JobRecord | None:
        """The job of a number."""
        with self._database.reading() as connection:
            return lists.one(connection, select(jobs.c.body).where(jobs.c.number == number))

    def named(self, name: str) -> JobRecord | None:
        """The newest job of a name."""
        query = select(jobs.c.body).where(jobs.c.name == name).order_by(jobs.c.number.desc())
        with self._database.reading() as connection:
            return lists.one(connection, query)

    def counts(self) -> dict[str, int]:
        """Jobs by status."""
        with self._database.reading() as connection:
            return lists.count(connection)

    def highest(self) -> int:
        """The highest number a job ever had; 0: there was none."""
        with self._database.reading() as connection:
            return connection.scalar(select(func.max(jobs.c.number))) or 0

    def key(self, user: str, key: str) -> int | None:
        """The number of the job that a user submitted with this key."""
        with self._database.reading() as connection:
            return lists.key_of(connection, user, key)

    def predictions(self, number: int) -> list[PredictionRecord]:
        """The predictions about a job, oldest first."""
        with self._database.reading() as connection:
            return lists.predictions_of(connection, number)

    def notes(self, kind: str, limit: int) -> list[Note]:
        """The last notes of a kind, oldest first."""
        with self._database.reading() as connection:
            return lists.newest_notes(connection, kind, limit)

    def add_token(self, name: str, user: str, role: str, digest: str, created: float) -> None:
        """Store a token by the digest of its secret; its name must be new."""
        with self._database.writing() as connection:
            tokens.add(connection, TokenRecord(name, user, role, created), digest)

    def tokens(self) -> list[TokenRecord]:
        """All tokens by name, without secrets."""
        with self._database.reading() as connection:
            return tokens.every(connection)

    def token(self, digest: str) -> TokenRecord | None:
        """The token whose secret has this digest."""
        with self._database.reading() as connection:
            return tokens.find(connection, digest)

    def touch_token(self, digest: str, at: float) -> None:
        """Remember when a token was last used."""
        with self._database.writing() as connection:
            tokens.touch(connection, digest, at)

    def revoke_token(self, name: str) -> bool:
        """Remove a token; whether it was there."""
        with self._database.writing() as connection:
            return tokens.revoke(connection, name)

    def setting(self, key: str) -> str | None:
        """A small text that was stored under this key."""
        with self._database.reading() as connection:
            return connection.scalar(select(settings.c.value).where(settings.c.key == key))

    def set_setting(self, key: str, value: str) -> None:
        """Store a small text."""
        with self._database.writing() as connection:
            lists.put(connection, settings, [{"key": key, "value": value}])

    def claim(self) -> bool:
        """Try to be the one active daemon of this store; does not wait."""
        return self._database.claim()

    def holds(self) -> bool:
        """Whether this is still the one."""
        return self._database.holds()

    def close(self) -> None:
        """Close it, and give the claim up."""
        self._database.close()

    def _prune_notes(self, connection: Connection, added: tuple[Note, ...]) -> None:
        """Now and then: to find what is beyond the number to keep, as many rows are read."""
        for kind, count in Counter(note.kind for note in added).items():
            self._unpruned[kind] = self._unpruned.get(kind, NOTES_BETWEEN) + count
            if self._unpruned[kind] > NOTES_BETWEEN:
                lists.prune_notes(connection, kind, self._keep_notes)
                self._unpruned[kind] = 0


def open_store(url: str, *, keep_events: int = KEEP_EVENTS, keep_notes: int = KEEP_NOTES) -> Store:
    """Open a store by its URL or path. One that is not there is made; an older one is brought up."""
    return Store(Database(url), keep_events=keep_events, keep_notes=keep_notes)
