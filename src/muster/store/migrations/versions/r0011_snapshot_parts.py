"""Snapshots in parts: each is written by itself, between the facts that are written meanwhile."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the table, empty; snapshots that are there are whole."""
    op.add_column("snapshots", sa.Column("parts", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "snapshot_parts",
        sa.Column("seq", BIG, primary_key=True, autoincrement=False),
        sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
