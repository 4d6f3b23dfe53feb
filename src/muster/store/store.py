"""The store: a journal of facts, and tables to list, page and look up. SQLite or PostgreSQL.

Calls block on the database and are thread-safe. Everything written is committed on return.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from muster.store import (
    agents,
    audit_log,
    curves,
    forecasts,
    journal,
    lists,
    retention,
    snapshots,
    spans,
    sweeps,
    usage,
)
from muster.store.batch import (
    Batch,
    CurvePoint,
    ForecastOutcome,
    ForecastRow,
    Journalled,
    Note,
    Snapshot,
    Span,
    SubmissionKey,
)
from muster.store.codec import decode_record
from muster.store.database import Database
from muster.store.ended_counts import EndedCounts
from muster.store.errors import UnwritableError
from muster.store.job_filter import JobFilter
from muster.store.schema import jobs, keys, labels, notes, predictions, settings, tokens
from muster.store.spans import OwnedSpan
from muster.wire.api.job_records import OVER, JobRecord, PredictionRecord
from muster.wire.api.sweep_records import SweepRecord
from muster.wire.api.trust_records import ActRecord, IdentityRecord, InvitationRecord, TokenRecord

KEEP_EVENTS = 1_000_000
"""Facts kept before the older snapshot, for people to read; some 120 to 400 MB."""
KEEP_NOTES = 20_000
"""Notes kept per kind."""
NOTES_BETWEEN = 1_000
"""Notes of a kind written between two prunings."""
READ_AT_ONCE = 2_000
"""Facts read by one query: some 1 MB."""


class Store:
    """An open database at the current schema."""

    def __init__(
        self, database: Database, *, keep_events: int = KEEP_EVENTS, keep_notes: int = KEEP_NOTES
    ) -> None:
        self._database = database
        self._keep_events = keep_events
        self._keep_notes = keep_notes
        self._unpruned: dict[str, int] = {}
        """Notes of each kind since the last pruning."""
        self._curves = curves.CurveRows()
        self._ended = EndedCounts()

    def write(self, batch: Batch) -> tuple[int, int]:
        """Store a batch atomically. Return the numbers of its first and last fact; without facts the
        first is one above the last."""
        facts = journal.prepared(batch.facts)
        rows = lists.job_rows(batch.records)
        labelled = lists.label_rows(batch.facts, batch.records)
        made = lists.prediction_rows(batch.predictions)
        given = [asdict(key) for key in batch.keys]
        with self._database.writing() as connection:
            span = journal.append(connection, facts)
            lists.put(connection, jobs, rows)
            lists.put(connection, labels, labelled)
            lists.add(connection, keys, given)
            lists.put(connection, predictions, made)
            lists.add(connection, notes, [asdict(note) for note in batch.notes])
            self._prune_notes(connection, batch.notes)
            audit_log.append(connection, batch.acts)
            usage.add(connection, batch.uses)
            sweeps.put(connection, batch.sweeps)
            self._curves.add(connection, batch.points)
            spans.put(connection, batch.spans)
            forecasts.put(connection, batch.forecasts)
            forecasts.score(connection, batch.outcomes)
        if any(record.status in OVER for record in batch.records):
            self._ended.drop()
        return span

    def snapshot_part(self, seq: int, part: int, body: bytes) -> None:
        """Store a part, counted from 0, of a snapshot whose body will follow."""
        with self._database.writing() as connection:
            snapshots.put_part(connection, seq, part, body)

    def snapshot(self, seq: int, body: bytes, parts: int = 0) -> None:
        """Store a snapshot, with this many parts stored before, and remove old snapshots and facts."""
        with self._database.writing() as connection:
            if not 0 <= seq <= journal.last(connection):
                raise UnwritableError(f"snapshot of fact {seq}, which is not in the journal")
            oldest = snapshots.put(connection, seq, body, parts)
            if oldest is not None:
                journal.prune(connection, oldest - self._keep_events)

    def latest(self, before: int | None = None) -> Snapshot | None:
        """Return the last snapshot, or the last one before a number."""
        with self._database.reading() as connection:
            return snapshots.latest(connection, before)

    def facts(self, after: int = 0, limit: int | None = None) -> Iterator[Journalled]:
        """Yield the facts after a number, in order, reading as needed."""
        while limit is None or limit > 0:
            size = READ_AT_ONCE if limit is None else min(limit, READ_AT_ONCE)
            with self._database.reading() as connection:
                found = journal.read(connection, after, size)
            yield from found
            if len(found) < size:
                return
            after = found[-1].seq
            limit = None if limit is None else limit - size

    def facts_of(self, kinds: tuple[str, ...], after: int, upto: int, limit: int) -> list[Journalled]:
        """Return the first facts of these kinds, after a number and up to another."""
        with self._database.reading() as connection:
            return journal.read_kinds(connection, kinds, after, upto, limit)

    def last_seq(self) -> int:
        """Return the number of the last fact; 0: none."""
        with self._database.reading() as connection:
            return journal.last(connection)

    def changes(
        self,
        after: int | None,
        number: int | None = None,
        limit: int = 500,
        users_or_pools: tuple[str, tuple[str, ...]] | None = None,
    ) -> list[Journalled]:
        """Return facts of one job or all, with job names, oldest first: the first after a number, or
        (None) the last ones. `users_or_pools`: as in `jobs`."""
        with self._database.reading() as connection:
            return journal.changes(connection, after, number, limit, users_or_pools)

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
        """Return jobs, newest first. `before`: the last number of the previous page.
        `users_or_pools`: jobs of this user, and any user's in these pools."""
        wanted = JobFilter(user, pool, name, users_or_pools)
        return self.filtered(wanted, statuses=statuses, before=before, limit=limit)

    def filtered(
        self,
        wanted: JobFilter,
        *,
        statuses: tuple[str, ...] = (),
        before: int | None = None,
        limit: int = 100,
    ) -> list[JobRecord]:
        """Return these jobs, newest first. `before`: the last number of the previous page."""
        with self._database.reading() as connection:
            dialect = connection.dialect.name
            return lists.page(connection, lists.page_of(dialect, wanted, statuses, before, limit))

    def grouped(
        self,
        wanted: JobFilter,
        groups: Sequence[tuple[str, ...]],
        *,
        before: int | None = None,
        limit: int = 100,
        counted: tuple[str, ...] = (),
    ) -> tuple[list[JobRecord], dict[str, int]]:
        """Return these jobs by groups of statuses, each newest first, and the number of those of the
        statuses `counted`. `before`: the last number of the previous page, which is in the first
        group."""
        found: list[JobRecord] = []
        with self._database.reading() as connection:
            dialect = connection.dialect.name
            for statuses in groups:
                if len(found) < limit:
                    left = limit - len(found)
                    statement = lists.page_of(dialect, wanted, statuses, before, left)
                    found += lists.page(connection, statement)
                before = None
            return found, self._counts(connection, wanted, counted) if counted else {}

    def ended_counts(self, wanted: JobFilter) -> Mapping[str, int] | None:
        """Return the number of these jobs that have ended by status, if it is known without asking the
        database."""
        return self._ended.known(wanted)

    def _counts(
        self, connection: Connection, wanted: JobFilter, statuses: tuple[str, ...]
    ) -> dict[str, int]:
        count = partial(lists.counts, connection, wanted, statuses)
        keep = statuses == OVER and self._database.is_claimed  # else others may write
        return self._ended.counted(wanted, count) if keep else count()

    def job(self, number: int) -> JobRecord | None:
        """Return the job of a number."""
        return self._job(_JOB, {"of_number": number})

    def named(self, user: str, name: str) -> JobRecord | None:
        """Return a user's newest job of a name."""
        query = select(jobs.c.body).where(jobs.c.name == name, jobs.c.user == user)
        return self._job(query.order_by(jobs.c.number.desc()).limit(1))

    def counts(self, wanted: JobFilter | None = None) -> dict[str, int]:
        """Return the number of these jobs by status."""
        with self._database.reading() as connection:
            return lists.counts(connection, wanted or JobFilter())

    def highest(self) -> int:
        """Return the highest number of a job or sweep so far, members to come included; 0: none."""
        with self._database.reading() as connection:
            own = connection.scalar(select(func.max(jobs.c.number))) or 0
            return max(own, sweeps.highest(connection))

    def between(self, first: int, last: int) -> list[JobRecord]:
        """Return the jobs of these numbers."""
        wanted = [jobs.c.number >= first, jobs.c.number <= last]
        with self._database.reading() as connection:
            return lists.page(connection, lists.newest(wanted, None, last - first + 1))

    def sweeps(
        self,
        *,
        users_or_pools: tuple[str, tuple[str, ...]] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[SweepRecord]:
        """Return sweeps, newest first; the arguments are as in `jobs`."""
        with self._database.reading() as connection:
            return sweeps.page(connection, users_or_pools, before, limit)

    def sweep(self, number: int) -> SweepRecord | None:
        """Return the sweep of a number."""
        with self._database.reading() as connection:
            return sweeps.one(connection, number)

    def named_sweep(self, user: str, name: str) -> SweepRecord | None:
        """Return a user's newest sweep of a name."""
        with self._database.reading() as connection:
            return sweeps.named(connection, user, name)

    def key(self, user: str, key: str) -> SubmissionKey | None:
        """Return what a caller submitted with this key."""
        rows = self._rows(_KEY, {"of_user": user, "of_key": key})
        return SubmissionKey(**rows[0]._mapping) if rows else None

    def predictions(self, number: int) -> list[PredictionRecord]:
        """Return the predictions about a job, oldest first."""
        query = select(predictions.c.body).where(predictions.c.number == number)
        rows = self._rows(query.order_by(predictions.c.at, predictions.c.what))
        return [decode_record(row.body, PredictionRecord) for row in rows]

    def curves(self, number: int, after: float = 0.0) -> list[CurvePoint]:
        """Return the points of a job's curves later than a moment, by kind and step."""
        with self._database.reading() as connection:
            return curves.read(connection, number, after)

    def spans(self, number: int, limit: int) -> list[Span]:
        """Return the last times in which a job held devices, oldest first."""
        with self._database.reading() as connection:
            return spans.of_job(connection, number, limit)

    def unended_spans(self) -> list[Span]:
        """Return the spans that have not ended."""
        with self._database.reading() as connection:
            return spans.unended(connection)

    def timeline(
        self, since: float, until: float, after: tuple[float, int] | None = None, limit: int = 1_000
    ) -> list[OwnedSpan]:
        """Return the spans that overlap a time, by beginning, each with whose it is.
        `after`: beginning and job of the last of the previous page."""
        with self._database.reading() as connection:
            return spans.between(connection, since, until, after, limit)

    def forecasts(
        self, since: float = 0.0, pool: str | None = None, limit: int = 10_000
    ) -> list[ForecastRow]:
        """Return the latest forecasts that came true, made since a moment; oldest first."""
        with self._database.reading() as connection:
            return forecasts.latest(connection, since, pool, limit)

    def open_forecasts(self) -> list[ForecastRow]:
        """Return the forecasts of which nothing has come yet."""
        with self._database.reading() as connection:
            return forecasts.open_ones(connection)

    def job_forecasts(self, number: int) -> list[ForecastRow]:
        """Return the forecasts of a job, oldest first."""
        with self._database.reading() as connection:
            return forecasts.of_job(connection, number)

    def score_forecasts(self, outcomes: Sequence[ForecastOutcome]) -> None:
        """Note what came of forecasts while nobody was there to see it."""
        with self._database.writing() as connection:
            forecasts.score(connection, outcomes)

    def drop_jobs(self, before: float) -> int:
        """Remove some of the jobs that ended before a moment, and all about them; return how many."""
        with self._database.writing() as connection:
            dropped = retention.drop_jobs(connection, before)
        self._ended.drop()
        return dropped

    def thin_curves(self, before: float) -> int:
        """Thin curves of some of the jobs submitted before a moment; return how many were looked at."""
        with self._database.writing() as connection:
            return retention.thin_curves(connection, before)

    def notes(self, kind: str, limit: int) -> list[Note]:
        """Return the last notes of a kind, oldest first."""
        query = select(notes.c.kind, notes.c.key, notes.c.at, notes.c.body).where(notes.c.kind == kind)
        rows = self._rows(query.order_by(notes.c.id.desc()).limit(limit))
        return [Note(*row) for row in reversed(rows)]

    def add_token(self, name: str, user: str, role: str, digest: str, created: float) -> None:
        """Store a token under a new name.

        Only the digest of its secret is stored. Secrets are 256 random bits, so a fast hash (SHA-256,
        BLAKE2) protects them as well as a slow one.
        """
        row = {"name": name, "user": user, "role": role, "digest": digest, "created": created}
        with self._database.writing() as connection:
            connection.execute(insert(tokens), row)

    def tokens(self) -> list[TokenRecord]:
        """Return all tokens by name, without secrets."""
        return [TokenRecord(*row) for row in self._rows(_TOKENS.order_by(tokens.c.name))]

    def token(self, digest: str) -> TokenRecord | None:
        """Return the token whose secret has this digest."""
        rows = self._rows(_TOKEN, {"of_digest": digest})
        return TokenRecord(*rows[0]) if rows else None

    def token_digest(self, prefix: str) -> str | None:
        """Return the digest of a token by its first digits."""
        rows = self._rows(select(tokens.c.digest).where(tokens.c.digest.between(prefix, prefix + "g")))
        return str(rows[0][0]) if rows else None

    def touch_token(self, digest: str, at: float) -> None:
        """Record when a token was last used."""
        with self._database.writing() as connection:
            connection.execute(update(tokens).where(tokens.c.digest == digest).values(used=at))

    def rotate_token(self, name: str, digest: str) -> None:
        """Give a token another secret."""
        with self._database.writing() as connection:
            changed = update(tokens).where(tokens.c.name == name)
            connection.execute(changed.values(digest=digest, used=None))

    def revoke_token(self, name: str) -> bool:
        """Remove a token; return whether it existed."""
        with self._database.writing() as connection:
            return connection.execute(delete(tokens).where(tokens.c.name == name)).rowcount > 0

    def next_epoch(self) -> int:
        """Return the number of a daemon that takes charge, one above that of the daemon before."""
        with self._database.writing() as connection:
            return agents.next_epoch(connection)

    def add_invitation(self, digest: str, invitation: InvitationRecord) -> None:
        """Store a join token; only the digest of its secret."""
        with self._database.writing() as connection:
            agents.add_invitation(connection, digest, invitation)

    def invitations(self) -> list[InvitationRecord]:
        """Return all join tokens, oldest first, without secrets."""
        with self._database.reading() as connection:
            return agents.all_invitations(connection)

    def invitation(self, digest: str) -> InvitationRecord | None:
        """Return the join token whose secret has this digest."""
        with self._database.reading() as connection:
            return agents.invitation(connection, digest)

    def drop_invitations(self, name: str | None = None, expired: float = 0.0) -> int:
        """Remove the join tokens of a name, or all that expired before a moment; return how many."""
        with self._database.writing() as connection:
            return agents.drop_invitations(connection, name, expired)

    def admit(self, digest: str, identity: IdentityRecord) -> bool:
        """Count a use of a join token and store who joined with it; False if it has no use left."""
        with self._database.writing() as connection:
            return agents.admit(connection, digest, identity)

    def put_identity(self, identity: IdentityRecord) -> None:
        """Store the certificate of a node's agent, in place of its last."""
        with self._database.writing() as connection:
            agents.put_identity(connection, identity)

    def identities(self) -> list[IdentityRecord]:
        """Return the certificates of all agents, by node."""
        with self._database.reading() as connection:
            return agents.all_identities(connection)

    def add_acts(self, acts: Sequence[ActRecord]) -> None:
        """Append to the audit log."""
        with self._database.writing() as connection:
            audit_log.append(connection, acts)

    def acts(self, *, user: str | None, since: float, limit: int) -> list[ActRecord]:
        """Return the last entries of the audit log, oldest first."""
        with self._database.reading() as connection:
            return audit_log.read(connection, user, since, limit)

    def usage(
        self,
        since: int,
        until: int,
        by: Sequence[str],
        users_or_pools: tuple[str, tuple[str, ...]] | None = None,
    ) -> list[dict[str, Any]]:
        """Return what was held in the hours [since, until), a row for each group of `by`."""
        with self._database.reading() as connection:
            return usage.read(connection, since, until, by, users_or_pools)

    def charged_until(self, numbers: Sequence[int]) -> dict[int, float]:
        """Return up to when these jobs are charged for what they hold."""
        with self._database.reading() as connection:
            return usage.charged_until(connection, numbers)

    def setting(self, key: str) -> str | None:
        """Return the text stored under this key."""
        with self._database.reading() as connection:
            return connection.scalar(select(settings.c.value).where(settings.c.key == key))

    def set_setting(self, key: str, value: str) -> None:
        """Store a short text under a key."""
        with self._database.writing() as connection:
            lists.put(connection, settings, [{"key": key, "value": value}])

    def claim(self) -> bool:
        """Try to become the active daemon of this store; does not wait."""
        return self._database.claim()

    def holds(self) -> bool:
        """Whether this is still the active daemon."""
        return self._database.holds()

    def close(self) -> None:
        """Close the store and release the claim."""
        self._database.close()

    def _rows(self, query: Select[Any], values: dict[str, Any] | None = None) -> list[Any]:
        with self._database.reading() as connection:
            return list(connection.execute(query, values or {}))

    def _job(self, query: Select[Any], values: dict[str, Any] | None = None) -> JobRecord | None:
        rows = self._rows(query, values)
        return decode_record(rows[0].body, JobRecord) if rows else None

    def _prune_notes(self, connection: Connection, added: tuple[Note, ...]) -> None:
        """Prune now and then: finding the oldest to keep reads as many rows."""
        for kind, count in Counter(note.kind for note in added).items():
            self._unpruned[kind] = self._unpruned.get(kind, NOTES_BETWEEN) + count
            if self._unpruned[kind] > NOTES_BETWEEN:
                lists.prune_notes(connection, kind, self._keep_notes)
                self._unpruned[kind] = 0


_KEY = select(keys).where(keys.c.user == bindparam("of_user"), keys.c.key == bindparam("of_key"))
"""Made once, as the others here: making a statement takes longer than running it."""
_TOKENS = select(tokens.c.name, tokens.c.user, tokens.c.role, tokens.c.created, tokens.c.used)
_TOKEN = _TOKENS.where(tokens.c.digest == bindparam("of_digest"))
_JOB = select(jobs.c.body).where(jobs.c.number == bindparam("of_number"))


def open_store(url: str, *, keep_events: int = KEEP_EVENTS, keep_notes: int = KEEP_NOTES) -> Store:
    """Open a store by URL or path; create it if missing, migrate it if old."""
    return Store(Database(url), keep_events=keep_events, keep_notes=keep_notes)
