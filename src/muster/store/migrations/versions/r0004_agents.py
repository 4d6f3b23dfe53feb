"""Join tokens of agents, and the certificate of each node's agent."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add both tables, empty."""
    op.create_table(
        "join_tokens",
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
    op.create_table(
        "agents",
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
