"""`muster backup` and `muster restore`: copies of the store. Quick to import."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.daemon.commands import NETWORK, Data, data_folder
from muster.cli.group import Commands
from muster.cli.options import ADMIN, option

backup = Commands()

Store = Annotated[
    str | None,
    option(
        NETWORK,
        "PostgreSQL URL without password, or SQLite file. (default: SQLite in the folder)",
        metavar="URL|FILE",
    ),
]
StoreFile = Annotated[
    Path | None, option(NETWORK, "File with the store's URL, password included.", metavar="FILE")
]


@backup.command("backup", rich_help_panel=ADMIN)
def make(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist.")],
    store: Store = None,
    store_file: StoreFile = None,
    data: Data = None,
) -> None:
    """Copy the daemon's store into a file, while the daemon runs: jobs, journal, tokens, accounts.

    On the daemon's machine. The copy is an SQLite file as of one moment, of a PostgreSQL store, too. It
    holds environments of jobs and digests of tokens: keep it as safe as the store. Logs, checkpoints
    and packed folders are not in it.

    Examples:
      muster backup muster-2026-11-16.db
      muster backup copy.db --store postgresql://muster@db1/muster
    """
    from muster.cli.daemon.start import store_of
    from muster.cli.render.terminal import hint
    from muster.cli.render.words import size
    from muster.store.backup import back_up

    with _told():
        back_up(store_of(store, store_file) or str(data_folder(data) / "muster.db"), file.absolute())
    typer.echo(f"wrote {file} ({size(file.stat().st_size)})")
    hint(f"to start from it: muster restore {file} --data DIR && muster up --data DIR")


@backup.command("restore", rich_help_panel=ADMIN)
def put_back(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `muster backup` wrote.")],
    store: Store = None,
    store_file: StoreFile = None,
    data: Data = None,
) -> None:
    """Fill a new store from a copy; the next `muster up` there goes on from it.

    The store must be empty, or not exist yet. Also the way from SQLite to PostgreSQL, and back. Jobs
    that ran when the copy was made and have ended since are restarted or fail as after a crash.

    Examples:
      muster restore muster-2026-11-16.db --data /srv/muster
      muster restore copy.db --store postgresql://muster@db1/muster
    """
    from muster.cli.daemon.start import store_of
    from muster.store.backup import restore

    place = store_of(store, store_file) or str(data_folder(data) / "muster.db")
    with _told():
        restore(file.absolute(), place)
    typer.echo(f"restored {file}; start the daemon: muster up")


@contextmanager
def _told() -> Iterator[None]:
    """Turn a store's error into one line."""
    from muster.files.errors import InputError
    from muster.store.errors import StoreError

    try:
        yield
    except StoreError as error:
        raise InputError(str(error)) from None
