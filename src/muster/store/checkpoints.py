"""SQLite's log, copied into the database's file beside the commits.

By default the commit that finds the log long copies it, and waits for the disk: 20 to 60 ms, in which
nobody's submission is answered. A connection of its own does so meanwhile. Only when the log has grown
to `LONGEST`, a commit copies what is left, which is little, so that the log starts over.
"""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread

INTERVAL = 1.0
"""s between two copies: each waits for the disk."""
LONGEST = 4_096
"""Pages of 4 kB."""


class Checkpointer:
    """A thread that copies the log of a database that is written."""

    def __init__(self, path: Path) -> None:
        self._path, self._written, self._closing = path, Event(), Event()
        self._thread = Thread(target=self._run, name="muster-checkpoints", daemon=True)
        self._thread.start()

    def wrote(self) -> None:
        """Take in that something was committed."""
        self._written.set()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._written.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(sqlite3.connect(self._path)) as connection:
            while self._written.wait() and not self._closing.is_set():
                self._written.clear()
                # A full or broken disk is told by the next commit.
                with suppress(sqlite3.Error):
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
                self._closing.wait(INTERVAL)
