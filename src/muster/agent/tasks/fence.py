"""Leases: a task that may run at most once ends on a node that its daemon no longer hears.

A lease counts from when the agent sent the last beat that the daemon answered. The daemon has heard
that beat later, so when the lease is over by its own count, it was over here before. Shims watch the
leases of their tasks, also while the agent is dead; the agent watches for shims that are.
"""

import os
from pathlib import Path

from muster.executors.local.shim import last_heard, uptime


class Fence:
    """When the daemon was last heard, in a file for the shims."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._heard = last_heard(str(path))

    def answered(self, sent: float) -> None:
        """The daemon has answered what was sent then, in s since boot."""
        if sent > self._heard:
            self._heard = sent
            # Of one length: a reader never sees a part of an older one.
            os.pwrite(self._file, f"{sent:020.3f}\n".encode(), 0)

    def lapsed(self, lease: float) -> bool:
        """Whether a lease of this length is over."""
        return lease > 0 and uptime() - self._heard > lease

    def silence(self, since: float) -> float:
        """Return the s for which no daemon has answered, counted from `since` (s since boot)."""
        return uptime() - max(self._heard, since)

    def close(self) -> None:
        os.close(self._file)
