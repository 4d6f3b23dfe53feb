"""Errors of NVIDIA's driver (Xid), from the kernel's log: NVML tells only who listens all the time.

Readable by root, and by others where `kernel.dmesg_restrict` is 0; elsewhere Xids stay unknown.
"""

import contextlib
import os
import re
from collections.abc import Container

XID = re.compile(rb"NVRM: Xid \(PCI:([0-9a-fA-F:]+)[^)]*\): (\d{1,6})")
"""A line of the driver: "NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus."."""
MOST_LINES = 10_000
"""Lines read at a time."""


class KernelLog:
    """The Xids since it was opened."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
        self.xids: dict[int, None] = {}
        """In their order."""
        self._file: int | None = None
        with contextlib.suppress(OSError):
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)

    def read(self, buses: Container[str]) -> list[int]:
        """Return the Xids so far, with those of these PCI addresses since the last call."""
        for _ in range(MOST_LINES if self._file is not None else 0):
            try:
                line = os.read(self._file or 0, 8192)
            except BrokenPipeError:
                continue  # lines were overwritten before they were read
            except OSError:
                break  # there are no more
            if not line:
                break
            for bus, number in XID.findall(line):
                if bus.decode("ascii").lower() in buses:
                    self.xids[int(number)] = None
        return list(self.xids)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
