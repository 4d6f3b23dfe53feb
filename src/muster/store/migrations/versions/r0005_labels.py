"""Labels of jobs, to find them by."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table, empty: jobs from before have none."""
    big = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "labels",
        sa.Column("number", big, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_index("labels_key", "labels", ["key", "value", "number"])
