"""The first tables: journal, snapshots, jobs, keys, predictions, notes, tokens, settings."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them."""
    _make_journal()
    _make_lists()
    _make_administration()


def _big() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _make_journal() -> None:
    op.create_table(
        "journal",
        sa.Column("seq", _big(), primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("job", sa.Text),
        sa.Column("number", _big()),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("journal_job", "journal", ["job", "seq"])
    op.create_index("journal_number", "journal", ["number", "seq"])
    op.create_table(
        "snapshots",
        sa.Column("seq", _big(), primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def _make_lists() -> None:
    op.create_table(
        "jobs",
        sa.Column("number", _big(), primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("jobs_name", "jobs", ["name", "number"])
    op.create_index("jobs_user", "jobs", ["user", "number", "status"])
    op.create_index("jobs_pool", "jobs", ["pool", "number", "status"])
    op.create_index("jobs_status", "jobs", ["status", "number"])
    op.create_table(
        "keys",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("number", _big(), nullable=False),
    )
    op.create_table(
        "predictions",
        sa.Column("number", _big(), primary_key=True, autoincrement=False),
        sa.Column("what", sa.Text, primary_key=True),
        sa.Column("at", sa.Float(53), primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "notes",
        sa.Column("id", _big(), primary_key=True, autoincrement=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("notes_kind", "notes", ["kind", "id"])


def _make_administration() -> None:
    op.create_table(
        "tokens",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("used", sa.Float(53)),
    )
    op.create_index("tokens_digest", "tokens", ["digest"], unique=True)
    op.create_table(
        "settings",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
