"""Identities of processes: a pid alone is not one, since pids are reused."""

import contextlib
import os
import signal
from dataclasses import dataclass

from muster.executors.local.shim import boot_id, identity_of, ticks_of

GONE = ("Z", "X")
"""States of processes that have ended and were not waited for."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process: its pid, its start (ticks since boot), and the boot."""

    pid: int
    ticks: int
    boot: str

    @property
    def alive(self) -> bool:
        found = ticks_of(self.pid)
        return (
            found is not None
            and found[0] == self.ticks
            and found[1] not in GONE
            and self.boot == boot_id()
        )

    def signal_group(self, number: int) -> None:
        """Send a signal to the process group that it leads, if it is alive."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def kill_remains(self) -> None:
        """Kill what is left of its group after its own end.

        A pid is not reused while a group of that number has members: if another process has it now,
        the group was empty.
        """
        found = ticks_of(self.pid)
        if self.pid and self.boot == boot_id() and (found is None or found[0] == self.ticks):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def identify(pid: int) -> ProcessIdentity:
    return ProcessIdentity(**identity_of(pid))
