"""The claim to be the only active daemon of a store. It ends with the process."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

CLAIM_LOCK = 0x6D75737465720000
"""PostgreSQL advisory lock of the active daemon ("muster" and a number), one per database."""


class FileClaim:
    """A lock on a file beside the database, closed on `exec`: tasks do not inherit it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Return the claim, or None if another process holds it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def kept(self) -> bool:
        """Whether the file still exists: without it another daemon would lock its own."""
        return os.fstat(self._descriptor).st_nlink > 0

    def alive(self) -> bool:
        """Always: the system keeps the lock."""
        return True

    def drop(self) -> None:
        """Unlock; the file stays, as removing it would race with another process opening it."""
        os.close(self._descriptor)


class SessionClaim:
    """An advisory lock of the writing session. Losing it means losing the connection to write on, so
    two daemons never both write, whatever the network does."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection.connection.dbapi_connection

    @classmethod
    def take(cls, connection: Connection) -> Self | None:
        """Return the claim, or None if another session holds it."""
        with connection.begin():
            if not connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({CLAIM_LOCK})").scalar():
                return None
            # If this machine vanishes, the lock is free after half a minute, not after two hours.
            connection.exec_driver_sql("SET tcp_keepalives_idle = 10")
            connection.exec_driver_sql("SET tcp_keepalives_interval = 5")
            connection.exec_driver_sql("SET tcp_keepalives_count = 4")
        return cls(connection)

    def kept(self) -> bool:
        """Whether the connection is the one that took the lock."""
        if self._connection.closed or self._connection.invalidated:
            return False
        return self._connection.connection.dbapi_connection is self._session

    def alive(self) -> bool:
        """Whether the database answers on it."""
        try:
            with self._connection.begin():
                self._connection.exec_driver_sql("SELECT 1")
        except SQLAlchemyError:
            return False
        return True

    def drop(self) -> None:
        """Unlock."""
        # A broken connection has lost the lock as well.
        if self.kept():
            with suppress(SQLAlchemyError), self._connection.begin():
                self._connection.exec_driver_sql(f"SELECT pg_advisory_unlock({CLAIM_LOCK})")


StoreClaim = FileClaim | SessionClaim
"""A claim that is held; `kept` does no I/O on the database, `alive` may."""
