"""The current tables; see `migrations` for their history."""

import sqlalchemy as sa

REVISION = "0011"
"""The newest of `migrations`: a current database is opened without loading Alembic, which takes longer
than the rest of opening it."""

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""64 bits. So has SQLite's INTEGER, which as a primary key is the row id."""

metadata = sa.MetaData()

journal = sa.Table(
    "journal",
    metadata,
    sa.Column("seq", BIG, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Float(53), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("number", BIG),
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("journal_number", "number", "seq"),
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("seq", BIG, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("parts", sa.Integer, nullable=False, server_default="0"),
)

snapshot_parts = sa.Table(
    "snapshot_parts",
    metadata,
    sa.Column("seq", BIG, primary_key=True, autoincrement=False),
    sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("number", BIG, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("pool", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("submitted", sa.Float(53), nullable=False, server_default="0"),
    sa.Index("jobs_submitted", "submitted", "number", "status"),
    sa.Index("jobs_name", "name", "number"),
    # With the status: live jobs are listed from the index alone.
    sa.Index("jobs_user", "user", "number", "status"),
    sa.Index("jobs_pool", "pool", "number", "status"),
    sa.Index("jobs_status", "status", "number"),
)

labels = sa.Table(
    "labels",
    metadata,
    sa.Column("number", BIG, primary_key=True, autoincrement=False),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sa.Index("labels_key", "key", "value", "number"),
)

keys = sa.Table(
    "keys",
    metadata,
    sa.Column("user", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("number", BIG, nullable=False),
    sa.Column("digest", sa.Text, nullable=False, server_default=""),
)

predictions = sa.Table(
    "predictions",
    metadata,
    sa.Column("number", BIG, primary_key=True, autoincrement=False),
    sa.Column("what", sa.Text, primary_key=True),
    sa.Column("at", sa.Float(53), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

notes = sa.Table(
    "notes",
    metadata,
    sa.Column("id", BIG, primary_key=True, autoincrement=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("at", sa.Float(53), nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index("notes_kind", "kind", "id"),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("created", sa.Float(53), nullable=False),
    sa.Column("used", sa.Float(53)),
    sa.Index("tokens_digest", "digest", unique=True),
)

settings = sa.Table(
    "settings",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", BIG, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Float(53), nullable=False),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("act", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Index("audit_user", "user", "id"),
)

invitations = sa.Table(
    "join_tokens",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created", sa.Float(53), nullable=False),
    sa.Column("expires", sa.Float(53), nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("uses", sa.Integer, nullable=False),
    sa.Column("used", sa.Integer, nullable=False),
    sa.Column("used_by", sa.Text, nullable=False),
    sa.Column("used_at", sa.Float(53)),
    sa.Column("engine", sa.Text, nullable=False),
    sa.Column("authority", sa.Text, nullable=False),
)

identities = sa.Table(
    "agents",
    metadata,
    sa.Column("node", sa.Text, primary_key=True),
    sa.Column("serial", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("issued", sa.Float(53), nullable=False),
    sa.Column("expires", sa.Float(53), nullable=False),
    sa.Column("joined", sa.Float(53), nullable=False),
    sa.Column("engine", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("authority", sa.Text, nullable=False),
    sa.Column("invitation", sa.Text, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("revoked", sa.Float(53)),
)

usage = sa.Table(
    "usage",
    metadata,
    sa.Column("hour", BIG, primary_key=True, autoincrement=False),
    sa.Column("number", BIG, primary_key=True, autoincrement=False),
    sa.Column("device_type", sa.Text, primary_key=True),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("pool", sa.Text, nullable=False),
    sa.Column("application", sa.Text, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("held", sa.Float(53), nullable=False),
    sa.Column("idle", sa.Float(53), nullable=False),
    sa.Column("lost", sa.Float(53), nullable=False),
    sa.Column("busy", sa.Float(53), nullable=False),
    sa.Column("watched", sa.Float(53), nullable=False),
    sa.Column("until", sa.Float(53), nullable=False),
    sa.Index("usage_number", "number"),
)

sweeps = sa.Table(
    "sweeps",
    metadata,
    sa.Column("number", BIG, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("pool", sa.Text, nullable=False),
    sa.Column("members", sa.Integer, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("sweeps_user", "user", "name", "number"),
)

curves = sa.Table(
    "curves",
    metadata,
    sa.Column("number", BIG, primary_key=True, autoincrement=False),
    sa.Column("what", sa.Text, primary_key=True),
    sa.Column("step", BIG, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Float(53), nullable=False),
    sa.Column("value", sa.Float(53), nullable=False),
    sa.Column("samples", BIG, nullable=False),
    sa.Column("workers", sa.Integer, nullable=False),
)

spans = sa.Table(
    "spans",
    metadata,
    sa.Column("number", BIG, primary_key=True, autoincrement=False),
    sa.Column("began", sa.Float(53), primary_key=True),
    sa.Column("ended", sa.Float(53)),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("workers", sa.Integer, nullable=False),
    sa.Column("servers", sa.Integer, nullable=False),
    sa.Column("devices", sa.Text, nullable=False),
    sa.Column("code", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Index("spans_began", "began", "number"),
    sa.Index("spans_ended", "ended"),
)

forecasts = sa.Table(
    "forecasts",
    metadata,
    sa.Column("number", BIG, primary_key=True, autoincrement=False),
    sa.Column("what", sa.Text, primary_key=True),
    sa.Column("mark", sa.Text, primary_key=True),
    sa.Column("made", sa.Float(53), nullable=False),
    *(sa.Column(name, sa.Float(53)) for name in ("low", "middle", "high")),
    *(sa.Column(name, sa.Float(53)) for name in ("raw_low", "raw_middle", "raw_high")),
    sa.Column("pool", sa.Text, nullable=False),
    sa.Column("waited", sa.Boolean, nullable=False),
    sa.Column("rests_on", sa.Integer, nullable=False),
    sa.Column("came", sa.Float(53)),
    sa.Index("forecasts_made", "made"),
)
