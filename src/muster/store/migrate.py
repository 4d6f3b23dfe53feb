"""Migrate a database to the current tables when it is opened; reject a newer one."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from muster.store.errors import StoreError
from muster.store.schema import REVISION

HERE = Path(__file__).with_name("migrations")


def upgrade(connection: Connection, folder: Path = HERE, newest: str = REVISION) -> None:
    """Run missing migrations inside the connection's transaction."""
    found = revision(connection)
    if found == newest:
        return
    # Slow to load and rarely needed.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise StoreError(
            f"the store is at revision {found}, but this Muster only knows up to {newest}: "
            "it was written by a newer Muster; use that one"
        )
    command.upgrade(config, newest)


def revision(connection: Connection) -> str | None:
    """Return the revision of the tables; None: there are none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found
