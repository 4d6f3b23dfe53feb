"""List entries of sweeps."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the table, empty."""
    op.create_table(
        "sweeps",
        sa.Column("number", BIG, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("members", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("sweeps_user", "sweeps", ["user", "name", "number"])
