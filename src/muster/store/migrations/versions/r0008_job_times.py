"""When jobs were submitted, to find them by: members of a sweep come later than their numbers."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_FROM_RECORD = {
    "sqlite": "UPDATE jobs SET submitted = COALESCE(json_extract(body, '$.submitted'), 0)",
    "postgresql": "UPDATE jobs SET submitted = COALESCE((body::json ->> 'submitted')::float8, 0)",
}


def upgrade() -> None:
    """Add the column, and fill it from the records."""
    column = sa.Column("submitted", sa.Float(53), nullable=False, server_default="0")
    op.add_column("jobs", column)
    op.execute(_FROM_RECORD[op.get_bind().dialect.name])
    op.create_index("jobs_submitted", "jobs", ["submitted", "number", "status"])
