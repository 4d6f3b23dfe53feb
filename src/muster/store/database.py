"""Connections: many that read, one that writes, and the claim to be the only daemon that does."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, SQLAlchemyError

from muster.store.claim import FileClaim, SessionClaim, StoreClaim
from muster.store.errors import ClaimLostError, StoreError, UnwritableError
from muster.store.migrate import upgrade

BUSY_SECONDS = 10.0
"""How long a write waits for another process (a backup, a second daemon that opens the store)."""
WAL_BYTES = 64 * 2**20
"""To what SQLite's log is cut back after a burst; it would stay as large as it ever was."""
OPEN_LOCK = 0x6D75737465720001
"""PostgreSQL's advisory lock under which tables are made: "muster" and a number."""
POSTGRES: dict[str, Any] = {
    "connect_timeout": 10,
    # A connection to a machine that is gone is given up after half a minute, not after hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}


class Database:
    """One database. Any thread may read; writes queue up behind a lock."""

    def __init__(self, url: str) -> None:
        self._url = parse(url)
        self._sqlite = self._url.get_backend_name() == "sqlite"
        self._lock = Lock()
        self._writer: Connection | None = None
        self._claim: StoreClaim | None = None
        with self._told("opened"):
            self._engine = _sqlite(self._url) if self._sqlite else _postgres(self._url)
        try:
            self._upgrade()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for one question: each statement sees what is committed, and blocks nobody."""
        with self._told("read"), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, verb: str = "written") -> Iterator[Connection]:
        """The one connection that writes, in a transaction that ends with the block."""
        with self._lock, self._told(verb):
            if self._claim is not None and not self._claim.kept():
                raise ClaimLostError(f"{self} is no longer this daemon's")
            try:
                with self._begun(self._connected()) as connection:
                    yield connection
            except DBAPIError as problem:
                if problem.connection_invalidated and self._claim is not None:
                    raise ClaimLostError(f"{self} was lost: {_cause(problem)}") from problem
                raise

    def claim(self) -> bool:
        """Try to be the only one; at once."""
        with self._lock, self._told("claimed"):
            if self._claim is not None:
                if self._claim.kept() and self._claim.alive():
                    return True
                self._drop_claim()
            if self._sqlite:
                self._claim = FileClaim.take(Path(f"{self._url.database}.lock"))
            else:
                # Out of the pool, which looks whether it lives: its database may have restarted.
                self._disconnect()
                self._claim = SessionClaim.take(self._connected())
            return self._claim is not None

    def holds(self) -> bool:
        """Whether the claim stands."""
        with self._lock:
            return self._claim is not None and self._claim.kept() and self._claim.alive()

    def close(self) -> None:
        """Give everything back, the claim included."""
        with self._lock:
            self._drop_claim()
            self._disconnect()
            self._engine.dispose()

    def __str__(self) -> str:
        # Passwords can be among the options as well.
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
                # At once the writer, not at the first change: what is read before it stays true.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def _drop_claim(self) -> None:
        if self._claim is not None:
            self._claim.drop()
            self._claim = None

    @contextmanager
    def _told(self, verb: str) -> Iterator[None]:
        """Errors in our words, without the statement and its values."""
        try:
            yield
        except (DataError, IntegrityError, UnicodeError, OverflowError) as problem:
            raise UnwritableError(f"{self} cannot hold this: {_cause(problem)}") from problem
        except (SQLAlchemyError, OSError) as problem:
            raise StoreError(f"{self} could not be {verb}: {_cause(problem)}") from problem


def parse(url: str) -> URL:
    """The URL of a store; a plain path is a file of SQLite."""
    if "://" not in url:
        return _file(url)
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Not a word of it is repeated: a part that was misread may be the password.
        form = "postgresql://user:password@machine:port/database"
        raise StoreError(f"the URL of the store cannot be read; its form is {form}") from None
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername != "sqlite":
        raise StoreError(f"a store is SQLite or PostgreSQL, not {parsed.drivername}")
    if parsed.database in (None, "", ":memory:"):
        raise StoreError("a store of SQLite is a file: sqlite:////path/to/file, or its path alone")
    return _file(str(parsed.database))


def _file(path: str) -> URL:
    """The file, wherever the process works later."""
    return URL.create("sqlite", database=str(Path(path).expanduser().absolute()))


def _sqlite(url: URL) -> Engine:
    path = Path(str(url.database))
    path.parent.mkdir(parents=True, exist_ok=True)
    # Jobs' environments are in it: nobody else may read it. SQLite's other files follow its mode.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    engine = create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
        connect_args={"timeout": BUSY_SECONDS},
    )
    event.listen(engine, "connect", _set_pragmas)
    return engine


def _set_pragmas(connection: Any, _: object) -> None:
    # WAL: who reads never waits for who writes. NORMAL: a commit is handed to the system but not
    # forced onto the disk, which makes it many times faster. It survives kill -9 of the daemon; the
    # last commits before a loss of power may be gone, whole, and with them went the tasks.
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", f"journal_size_limit={WAL_BYTES}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _postgres(url: URL) -> Engine:
    try:
        return create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            pool_pre_ping=True,
            connect_args={name: value for name, value in POSTGRES.items() if name not in url.query},
        )
    except ModuleNotFoundError as problem:
        raise StoreError("PostgreSQL needs its driver: pip install 'musterd[postgres]'") from problem


def _cause(problem: Exception) -> str:
    """The driver's own words, on one line."""
    return " ".join(str(getattr(problem, "orig", None) or problem).split())
