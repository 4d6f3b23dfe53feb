"""What jobs have held, by the hour."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the table, empty: what was held before nobody has counted."""
    op.create_table(
        "usage",
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
    )
    op.create_index("usage_number", "usage", ["number"])
