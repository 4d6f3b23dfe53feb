"""Being the one active daemon of a store: a claim ends with the process, however that dies."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol, Self

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

CLAIM_LOCK = 0x6D75737465720000
"""PostgreSQL's advisory lock of the active daemon: "muster" and a number. One for each database."""


class StoreClaim(Protocol):
    """A claim that was taken."""

    def kept(self) -> bool:
        """Whether nothing is known to have ended it; asks nobody."""
        ...

    def alive(self) -> bool:
        """Whether it stands now."""
        ...

    def drop(self) -> None:
        """End it."""
        ...


class FileClaim:
    """A lock on a file beside the database. Tasks do not inherit it: it is closed when they `exec`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """The claim, or None while another holds it."""
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
        """Whether the file is still there: without it another daemon would lock one of its own."""
        return os.fstat(self._descriptor).st_nlink > 0

    def alive(self) -> bool:
        """The system keeps the lock."""
        return True

    def drop(self) -> None:
        """Unlock; the file stays, for removing it would race with who opens it just now."""
        os.close(self._descriptor)


class SessionClaim:
    """An advisory lock of the session that writes: who has lost it has lost the connection to write on,
    so that two daemons never both write, whatever the network does."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection.connection.dbapi_connection

    @classmethod
    def take(cls, connection: Connection) -> Self | None:
        """The claim, or None while another holds it."""
        with connection.begin():
            if not connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({CLAIM_LOCK})").scalar():
                return None
            # If this machine vanishes, the lock is another's after half a minute, not after two hours.
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
        # If the connection is broken, the lock is gone as well.
        if self.kept():
            with suppress(SQLAlchemyError), self._connection.begin():
                self._connection.exec_driver_sql(f"SELECT pg_advisory_unlock({CLAIM_LOCK})")
