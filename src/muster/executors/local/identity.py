"""Who a process is: its number alone does not tell, since numbers are used again."""

import contextlib
import os
import signal
from dataclasses import dataclass

from muster.executors.local.shim import boot_id, ticks_of

GONE = ("Z", "X")
"""State letters of processes that have ended and are only still to be waited for."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process: its number, when it began (ticks since the boot), and in which boot."""

    pid: int
    ticks: int
    boot: str

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        found = ticks_of(self.pid)
        return (
            found is not None
            and found[0] == self.ticks
            and found[1] not in GONE
            and self.boot == boot_id()
        )

    def signal_group(self, number: int) -> None:
        """Send a signal to the process group that it leads; nothing happens if it is gone."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def kill_remains(self) -> None:
        """Kill what is left of its group after its own end.

        A group's number is not given to a new process while the group has members: where a process
        of that number began at another time, the group was empty before.
        """
        found = ticks_of(self.pid)
        if self.pid and self.boot == boot_id() and (found is None or found[0] == self.ticks):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def identify(pid: int) -> ProcessIdentity:
    """The process that has this number now."""
    found = ticks_of(pid)
    return ProcessIdentity(pid, found[0] if found else 0, boot_id())
