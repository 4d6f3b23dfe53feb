"""Connections: many readers, one writer, and the claim to be the only writing daemon."""

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    SQLAlchemyError,
)

from muster.store.checkpoints import LONGEST, Checkpointer
from muster.store.claim import FileClaim, SessionClaim, StoreClaim
from muster.store.errors import ClaimLostError, StoreError, UnwritableError
from muster.store.migrate import upgrade

BUSY_SECONDS = 10.0
"""How long a write waits for another process (a backup, a second daemon opening the store)."""
WAL_BYTES = 64 * 2**20
"""Size to which SQLite truncates its log after a burst; by default it never shrinks."""
POOL: dict[str, Any] = {"pool_size": 15, "max_overflow": 0, "pool_use_lifo": True}
"""Connections are kept: in a flood of requests more than the usual five are busy at once, and each of
the others would be made for one statement. The last one used is used again: it has its statements
prepared."""
OPEN_LOCK = 0x6D75737465720001
"""PostgreSQL advisory lock held during migrations: "muster" and a number."""
POSTGRES: dict[str, Any] = {
    "connect_timeout": 10,
    # Give up on a dead machine after half a minute, not after hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}


class Database:
    """One database. Any thread may read; writes are serialised by a lock."""

    def __init__(self, url: str) -> None:
        self._url = parse(url)
        self._sqlite = self._url.get_backend_name() == "sqlite"
        self._lock = Lock()
        self._writer: Connection | None = None
        self._claim: StoreClaim | None = None
        self._checkpoints: Checkpointer | None = None
        """Of a daemon on SQLite: it writes all the time."""
        with self._told("opened"):
            self._engine = _sqlite(self._url) if self._sqlite else _postgres(self._url)
        try:
            self._upgrade()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection to read: each statement sees committed data and blocks nobody."""
        with self._told("read"), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, verb: str = "written") -> Iterator[Connection]:
        """Yield the only writing connection, in a transaction that ends with the block."""
        with self._lock, self._told(verb):
            if self._claim is not None and not self._claim.kept():
                raise ClaimLostError(f"{self} is no longer claimed by this daemon")
            try:
                with self._begun(self._connected()) as connection:
                    yield connection
            except DBAPIError as problem:
                if problem.connection_invalidated and self._claim is not None:
                    raise ClaimLostError(
                        f"lost the connection to {self}: {_cause(problem)}"
                    ) from problem
                raise
            if self._checkpoints is not None:
                self._checkpoints.wrote()

    def claim(self) -> bool:
        """Try to claim the store, without waiting."""
        with self._lock, self._told("claimed"):
            if self._claim is not None:
                if self._claim.kept() and self._claim.alive():
                    return True
                self._drop_claim()
            if self._sqlite:
                self._claim = FileClaim.take(Path(f"{self._url.database}.lock"))
                if self._claim is not None:
                    self._checkpoints = Checkpointer(Path(str(self._url.database)))
            else:
                # A fresh one, which is looked at first: the database may have restarted.
                self._disconnect()
                self._claim = SessionClaim.take(self._connected())
            return self._claim is not None

    @property
    def is_claimed(self) -> bool:
        """Whether the claim was taken here: nobody else writes."""
        return self._claim is not None

    def holds(self) -> bool:
        """Whether the claim is still held."""
        with self._lock:
            return self._claim is not None and self._claim.kept() and self._claim.alive()

    def close(self) -> None:
        """Close all connections and release the claim."""
        with self._lock:
            self._drop_claim()
            self._disconnect()
            self._engine.dispose()

    def __str__(self) -> str:
        # Options may hold passwords as well.
        return f"the store {self._url.set(query={}).render_as_string(hide_password=True)}"

    def _upgrade(self) -> None:
        with self.writing("opened") as connection:
            if not self._sqlite:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({OPEN_LOCK})")
            upgrade(connection)

    def _connected(self) -> Connection:
        if self._writer is None:
            self._writer = self._engine.connect()
            if not self._sqlite:
                self._writer.execution_options(isolation_level="READ COMMITTED")
        return self._writer

    def _disconnect(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @contextmanager
    def _begun(self, connection: Connection) -> Iterator[Connection]:
        with connection.begin():
            if self._sqlite:
                # Lock at once, not at the first change: what was read before must stay true.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def _drop_claim(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.close()
            self._checkpoints = None
        if self._claim is not None:
            self._claim.drop()
            self._claim = None

    @contextmanager
    def _told(self, verb: str) -> Iterator[None]:
        """Translate errors, without the statement and its values."""
        try:
            yield
        except (DataError, IntegrityError, UnicodeError, OverflowError) as problem:
            raise UnwritableError(f"{self} cannot hold this: {_cause(problem)}") from problem
        except (SQLAlchemyError, OSError) as problem:
            raise StoreError(f"{self} could not be {verb}: {_cause(problem)}") from problem


def parse(url: str) -> URL:
    """Parse the URL of a store; a plain path is an SQLite file."""
    if "://" not in url:
        return _file(url)
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Never repeat any of it: a misread part may be the password.
        form = "postgresql://user:password@machine:port/database"
        raise StoreError(f"invalid URL of the store; expected {form}") from None
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername != "sqlite":
        raise StoreError(f"a store is SQLite or PostgreSQL, not {parsed.drivername}")
    if parsed.database in (None, "", ":memory:"):
        raise StoreError("an SQLite store is a file: sqlite:////path/to/file, or just its path")
    return _file(str(parsed.database))


def _file(path: str) -> URL:
    """Return an absolute URL: the process may change its folder later."""
    return URL.create("sqlite", database=str(Path(path).expanduser().absolute()))


def _sqlite(url: URL) -> Engine:
    path = Path(str(url.database))
    path.parent.mkdir(parents=True, exist_ok=True)
    # Private, as it holds jobs' environments. SQLite's other files get the same mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    engine = create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
        connect_args={"timeout": BUSY_SECONDS},
        **POOL,
    )
    event.listen(engine, "connect", _set_pragmas)
    return engine


def _set_pragmas(connection: Any, _: object) -> None:
    # WAL: readers never wait for the writer. NORMAL: commits are not synced to disk, which makes them
    # many times faster. They survive kill -9 of the daemon; a power failure may lose the last ones,
    # whole, but it ends the tasks too.
    pragmas = ("journal_mode=WAL", "synchronous=NORMAL", f"wal_autocheckpoint={LONGEST}")
    for pragma in (*pragmas, f"journal_size_limit={WAL_BYTES}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _postgres(url: URL) -> Engine:
    try:
        engine = create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            connect_args={name: value for name, value in POSTGRES.items() if name not in url.query},
            **POOL,
        )
    except ModuleNotFoundError as problem:
        raise StoreError("PostgreSQL needs its driver: pip install 'musterd[postgres]'") from problem
    event.listen(engine, "checkout", _refuse_ended)
    return engine


def _refuse_ended(connection: Any, *_: object) -> None:
    """Have another connection made in place of one that the server has ended, as by a restart.

    Between two statements a server says nothing, unless it says goodbye: to look whether something is
    there to be read takes a microsecond. To ask whether it answers would be a round trip before each
    statement, as long as the statement itself.
    """
    looked = select.poll()
    looked.register(connection.fileno(), select.POLLIN)
    if looked.poll(0):
        raise DisconnectionError("the server has ended the connection")


def _cause(problem: Exception) -> str:
    """Return the driver's message on one line."""
    return " ".join(str(getattr(problem, "orig", None) or problem).split())
