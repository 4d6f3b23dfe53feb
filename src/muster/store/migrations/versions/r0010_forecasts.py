"""Forecasts of jobs' starts and ends, held to what came of them."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the table, empty."""
    op.create_table(
        "forecasts",
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
    )
    op.create_index("forecasts_made", "forecasts", ["made"])
