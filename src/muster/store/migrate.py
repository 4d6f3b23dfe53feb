"""A database is brought to the newest tables when it is opened; a newer one is left alone."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from muster.store.errors import StoreError
from muster.store.schema import REVISION

HERE = Path(__file__).with_name("migrations")


def upgrade(connection: Connection, folder: Path = HERE, newest: str = REVISION) -> None:
    """Run what is missing, inside the connection's transaction: all of it or nothing."""
    found = revision(connection)
    if found == newest:
        return
    # Slow to load, and needed once in the life of a database.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise StoreError(
            f"the store's tables are of revision {found}, this Muster knows them up to {newest}: "
            "a newer Muster made them, use that one"
        )
    command.upgrade(config, newest)


def revision(connection: Connection) -> str | None:
    """The revision of the database's tables; None: it has none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found
