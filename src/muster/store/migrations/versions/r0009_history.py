"""Curves of trainings, and which devices jobs have held when."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the tables, empty: a daemon opens the spans of what runs when it starts."""
    op.create_table(
        "curves",
        sa.Column("number", BIG, primary_key=True, autoincrement=False),
        sa.Column("what", sa.Text, primary_key=True),
        sa.Column("step", BIG, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("value", sa.Float(53), nullable=False),
        sa.Column("samples", BIG, nullable=False),
        sa.Column("workers", sa.Integer, nullable=False),
    )
    op.create_table(
        "spans",
        sa.Column("number", BIG, primary_key=True, autoincrement=False),
        sa.Column("began", sa.Float(53), primary_key=True),
        sa.Column("ended", sa.Float(53)),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("workers", sa.Integer, nullable=False),
        sa.Column("servers", sa.Integer, nullable=False),
        sa.Column("devices", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("spans_began", "spans", ["began", "number"])
    op.create_index("spans_ended", "spans", ["ended"])
