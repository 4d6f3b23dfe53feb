"""Log lines to standard error; where that is a daemon's log file, its size is bounded."""

import contextlib
import os
import sys
from pathlib import Path

LOG_FILE = "daemon.log"
MOST_BYTES = 16 * 2**20
"""Of the log file; the previous one is kept beside it."""
LOOK_EVERY = 1_000
"""Lines between two looks at the size."""


class LogLines:
    """Writes log lines, and ignores failures: a full disk must not end the daemon."""

    def __init__(self, folder: Path, most: int = MOST_BYTES, look_every: int = LOOK_EVERY) -> None:
        self._path, self._most, self._look_every = folder / LOG_FILE, most, look_every
        self._written = 0

    def msg(self, line: str) -> None:
        """Write a line; now and then, start another file."""
        with contextlib.suppress(OSError):
            print(line, file=sys.stderr, flush=True)
            self._written += 1
            if self._written % self._look_every == 0:
                self._rotate()

    debug = info = warning = error = critical = exception = msg

    def _rotate(self) -> None:
        """Rename a log file that is too large, and continue with an empty one."""
        out = os.fstat(sys.stderr.fileno())
        if out.st_size <= self._most or not os.path.samestat(out, self._path.stat()):
            return  # small, or a terminal, a pipe or a file of somebody else's
        shared = [number for number in (1, 2) if os.path.samestat(os.fstat(number), out)]
        self._path.replace(self._path.with_name(f"{LOG_FILE}.1"))
        new = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number in shared:  # `muster up --detach` gives it as standard output, too
            os.dup2(new, number)
        os.close(new)
