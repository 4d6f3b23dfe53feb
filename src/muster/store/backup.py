"""Copies of a store: an SQLite file of the same tables, whatever it was made from."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, func, insert, select

from muster.store.database import Database, parse
from muster.store.errors import StoreError
from muster.store.migrate import revision
from muster.store.schema import REVISION, jobs, journal, metadata, snapshots

AT_ONCE = 2_000
"""Rows copied at once: some MB."""


def back_up(url: str, file: Path) -> None:
    """Copy a store into a new file, as of one moment; a daemon may use it meanwhile."""
    source = parse(url)
    if source.get_backend_name() != "sqlite":
        with _postgres(url) as engine, _new_file(file) as draft:
            _copy_from_postgres(engine, draft)
    elif not Path(str(source.database)).is_file():
        raise StoreError(f"there is no store {source.database}; name it with --data or --store")
    else:
        with _new_file(file) as draft:
            _copy_file(Path(str(source.database)), draft)


def restore(file: Path, url: str) -> None:
    """Fill an empty or missing store from a copy that `back_up` has made."""
    if not _is_copy(file):
        raise StoreError(f"{file} is not a copy of a store; make one with: muster backup FILE")
    target = parse(url)
    if target.get_backend_name() == "sqlite":
        path = Path(str(target.database))
        if path.exists() and path.stat().st_size:
            raise StoreError(f"{path} exists; move it away first, with the daemon stopped")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        with _new_file(path) as draft:
            _copy_file(file, draft)
        return
    database = Database(url)
    try:
        _fill(file, database)
    finally:
        database.close()


@contextmanager
def _new_file(file: Path) -> Iterator[Path]:
    """Yield a file to fill, which gets its name once it is whole. Private, as stores are."""
    if file.exists():
        raise StoreError(f"{file} exists; give another name")
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.rename(file)
    except (OSError, sqlite3.Error) as problem:
        raise StoreError(f"{file} could not be written: {problem}") from problem
    finally:
        draft.unlink(missing_ok=True)


def _copy_file(source: Path, target: Path) -> None:
    """Copy all pages in one step: with some at a time, every commit would start it over. The daemon
    goes on writing meanwhile, to its log."""
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new, pages=-1)
        new.execute("PRAGMA journal_mode=DELETE")


@contextmanager
def _postgres(url: str) -> Iterator[Engine]:
    try:
        engine = create_engine(parse(url), isolation_level="REPEATABLE READ", hide_parameters=True)
    except ModuleNotFoundError as problem:
        raise StoreError("PostgreSQL needs its driver: pip install 'musterd[postgres]'") from problem
    try:
        yield engine
    finally:
        engine.dispose()


def _copy_from_postgres(engine: Engine, target: Path) -> None:
    """Copy all rows as of one moment: all statements of the transaction see the same."""
    copy = Database(str(target))
    try:
        with engine.connect() as old, copy.writing() as new:
            if revision(old) != REVISION:
                raise StoreError(
                    f"the store is at revision {revision(old)}, this Muster's is {REVISION}: "
                    "start its daemon with this version once, or use the version that wrote it"
                )
            _copy_rows(old, new)
    finally:
        copy.close()
    with closing(sqlite3.connect(target)) as whole:
        whole.execute("PRAGMA journal_mode=DELETE")


def _fill(file: Path, database: Database) -> None:
    if not database.claim():
        raise StoreError("a daemon uses the store; stop it first: muster down")
    copied = Database(str(file))  # an older copy is migrated first
    try:
        with copied.reading() as old, database.writing() as new:
            if any(new.scalar(select(func.count()).select_from(t)) for t in (journal, snapshots, jobs)):
                raise StoreError("the store is not empty; restore into an empty database")
            _copy_rows(old, new)
            _renumber(new)
    finally:
        copied.close()


def _copy_rows(old: Connection, new: Connection) -> None:
    for table in metadata.sorted_tables:
        rows = old.execution_options(yield_per=AT_ONCE).execute(select(table)).mappings()
        for part in rows.partitions(AT_ONCE):
            new.execute(insert(table), [dict(row) for row in part])


def _renumber(connection: Connection) -> None:
    """Let the numbers that PostgreSQL gives go on after those that were copied."""
    for table in metadata.sorted_tables:
        for column in table.primary_key:
            if column.autoincrement is True:
                last: Any = connection.scalar(select(func.max(column)))
                sequence = func.pg_get_serial_sequence(table.name, column.name)
                if last is not None:
                    connection.execute(select(func.setval(sequence, last)))


def _is_copy(file: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as copy:
            return copy.execute("SELECT version_num FROM alembic_version").fetchone() is not None
    except sqlite3.Error:
        return False
