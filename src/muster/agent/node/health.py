"""How the node is: what `AgentAlive.health` says, with the keys of `wire.records.NodeHealth`."""

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muster.agent.node.devices import read_devices
from muster.agent.node.kernel_log import KernelLog


class HealthProbe:
    """Measures the node."""

    def __init__(self, folder: Path, only: Sequence[str] | None = None) -> None:
        """`only`: the GPUs with these numbers or UUIDs; None: all."""
        self._folder, self._only, self._log = folder, only, KernelLog()
        self._buses: set[str] = set()
        """Of all GPUs that were ever seen: one that has failed may no longer be."""

    def measure(self) -> dict[str, Any]:
        """Return how the node is now; what is unknown is left out. Takes a moment."""
        found: dict[str, Any] = {
            "load": round(os.getloadavg()[0], 2),
            "disk_free": shutil.disk_usage(self._folder).free,
        }
        with contextlib.suppress(OSError, ValueError):
            found["memory_free"] = _memory_free()
        devices = read_devices(self._only)
        self._buses |= set(devices.buses)
        if self._buses:
            found |= {**devices.health, "xids": self._log.read(self._buses)}
        return found

    def close(self) -> None:
        self._log.close()


def _memory_free() -> int:
    """Bytes of the machine's memory that programs can still have."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise ValueError("the kernel does not say")
