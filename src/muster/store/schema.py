"""The tables as they are now. How they came to be so: `migrations`."""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

REVISION = "0002"
"""The newest of `migrations`. A database that is there already is opened without loading Alembic,
which takes longer than all the rest of opening it."""

BIG = BigInteger().with_variant(Integer, "sqlite")
"""64 bits. SQLite's INTEGER has them, and as a primary key it is the row's own number."""

metadata = MetaData()

journal = Table(
    "journal",
    metadata,
    Column("seq", BIG, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("kind", Text, nullable=False),
    Column("number", BIG),
    Column("body", Text, nullable=False),
    Index("journal_number", "number", "seq"),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("seq", BIG, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("number", BIG, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("jobs_name", "name", "number"),
    # With the status, so that a list of the live ones of many is made from the index alone.
    Index("jobs_user", "user", "number", "status"),
    Index("jobs_pool", "pool", "number", "status"),
    Index("jobs_status", "status", "number"),
)

keys = Table(
    "keys",
    metadata,
    Column("user", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("number", BIG, nullable=False),
)

predictions = Table(
    "predictions",
    metadata,
    Column("number", BIG, primary_key=True, autoincrement=False),
    Column("what", Text, primary_key=True),
    Column("at", Float(53), primary_key=True),
    Column("body", Text, nullable=False),
)

notes = Table(
    "notes",
    metadata,
    Column("id", BIG, primary_key=True, autoincrement=True),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("notes_kind", "kind", "id"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("name", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("used", Float(53)),
    Index("tokens_digest", "digest", unique=True),
)

settings = Table(
    "settings",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
