"""A store is made, brought up to date, or refused, when it is opened."""

import shutil
import stat
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from muster.store.database import Database, parse
from muster.store.errors import StoreError
from muster.store.migrate import HERE, revision, upgrade
from muster.store.schema import REVISION, metadata
from muster.store.store import open_store
from tests.unit.store.samples import arrivals

NEXT = f"""
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = {REVISION!r}


def upgrade() -> None:
    with op.batch_alter_table("jobs") as jobs:
        jobs.add_column(sa.Column("colour", sa.Text, server_default="red", nullable=False))
    op.drop_table("settings")
"""


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The changes of a Muster that knows one more than this one."""
    folder = tmp_path / "newer 100%"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "r9999_next.py").write_text(NEXT, encoding="utf-8")
    return folder


def test_a_new_database_has_the_tables_of_the_schema(url: str) -> None:
    database = Database(url)
    with database.writing() as connection:
        assert revision(connection) == REVISION
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    database.close()


def test_the_newest_change_is_the_one_the_schema_names() -> None:
    assert ScriptDirectory(str(HERE)).get_heads() == [REVISION]


def test_an_older_database_is_brought_up_with_what_is_in_it(url: str, newer: Path) -> None:
    store = open_store(url)
    store.write(arrivals((1, 2, 3)))
    store.close()
    database = Database(url)
    with database.writing() as connection:
        upgrade(connection, newer, "9999")
    with database.writing() as connection:
        assert revision(connection) == "9999"
        found = connection.exec_driver_sql("SELECT number, name, colour FROM jobs ORDER BY number")
        assert [tuple(row) for row in found] == [(n, f"job-{n}", "red") for n in (1, 2, 3)]
        assert len(connection.exec_driver_sql("SELECT seq FROM journal").all()) == 3
    database.close()


def test_a_change_that_fails_leaves_the_database_as_it_was(url: str, newer: Path) -> None:
    script = newer / "versions" / "r9999_next.py"
    script.write_text(NEXT + '    op.drop_table("settings")\n', encoding="utf-8")
    database = Database(url)
    with pytest.raises(StoreError, match="settings"), database.writing() as connection:
        upgrade(connection, newer, "9999")
    with database.writing() as connection:
        assert revision(connection) == REVISION
        assert inspect(connection).has_table("settings")
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    database.close()


def test_a_database_of_a_newer_muster_is_left_alone(url: str, newer: Path) -> None:
    database = Database(url)
    with database.writing() as connection:
        upgrade(connection, newer, "9999")
    database.close()
    with pytest.raises(StoreError, match=f"revision 9999, but this Muster only knows up to {REVISION}"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://localhost/muster", "SQLite or PostgreSQL, not mysql"),
        ("sqlite://", "is a file"),
        ("sqlite:///:memory:", "is a file"),
        ("postgresql://ann:secret@db:se/cret/x", "invalid URL of the store"),
        ("postgresql://ann:secret@localhost:1/x?connect_timeout=1", "could not be opened"),
    ],
)
def test_what_is_no_store_is_told(url: str, problem: str) -> None:
    with pytest.raises(StoreError, match=problem) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_urls_of_postgresql_go_to_its_driver(scheme: str) -> None:
    assert parse(f"{scheme}://ann@db/muster").drivername == "postgresql+psycopg"


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("milk, bread, a new bicycle\n" * 100, encoding="utf-8")
    with pytest.raises(StoreError, match="not a database"):
        open_store(str(path))
    with pytest.raises(StoreError, match="could not be opened"):
        open_store(str(path / "below"))


def test_nobody_else_may_read_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "new folder"
    store = open_store(f"sqlite:///{folder}/muster.db")
    store.claim()
    store.write(arrivals((1,)))
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    assert modes.keys() == {"muster.db", "muster.db-wal", "muster.db-shm", "muster.db.lock"}
    assert set(modes.values()) == {0o600}
    store.close()
