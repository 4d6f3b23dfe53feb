"""Inserts that may meet a row with the same key: each database has its own."""

from typing import TYPE_CHECKING

from sqlalchemy import Table

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
    from sqlalchemy.dialects.sqlite import Insert as SqliteInsert


def upsert_of(dialect: str, table: Table) -> "SqliteInsert | PostgresInsert":
    """Return an insert of a dialect. PostgreSQL's takes 50 ms to load, so only who uses it does."""
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)
