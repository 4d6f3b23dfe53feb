"""Tokens. Only a digest of a secret is stored: secrets are 256 random bits, which nobody finds by
trying, so that a fast hash (SHA-256, BLAKE2) protects them as well as a slow one would."""

from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, update

from muster.store.schema import tokens
from muster.wire.records import TokenRecord


def add(connection: Connection, record: TokenRecord, digest: str) -> None:
    """Store a token that is not there."""
    row = {
        "name": record.name,
        "user": record.user,
        "role": record.role,
        "digest": digest,
        "created": record.created,
    }
    connection.execute(insert(tokens), row)


def every(connection: Connection) -> list[TokenRecord]:
    """All tokens by name."""
    return [TokenRecord(*row) for row in connection.execute(_records().order_by(tokens.c.name))]


def find(connection: Connection, digest: str) -> TokenRecord | None:
    """The token of a digest."""
    row = connection.execute(_records().where(tokens.c.digest == digest)).one_or_none()
    return None if row is None else TokenRecord(*row)


def touch(connection: Connection, digest: str, at: float) -> None:
    """Remember when a token was last used."""
    connection.execute(update(tokens).where(tokens.c.digest == digest).values(used=at))


def revoke(connection: Connection, name: str) -> bool:
    """Remove a token; whether it was there."""
    return connection.execute(delete(tokens).where(tokens.c.name == name)).rowcount > 0


def _records() -> Select[Any]:
    columns = tokens.c
    return select(columns.name, columns.user, columns.role, columns.created, columns.used)
