"""How busy this machine's GPUs are, from NVML: `python -m muster.executors.gpu_watch` reads it once.

It is read in a process of its own: a driver that hangs must not hang the daemon.
"""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from muster.executors.gpus import handles_of

EVERY, TIMEOUT = 30.0, 30.0
"""s between two readings, and for one of them."""


def read_busy(nvml: Any, handles: Sequence[Any]) -> list[float | None]:
    """Return the part of the last moments in which each GPU computed, 0 to 1; None: unknown."""
    found: list[float | None] = []
    for handle in handles:
        try:
            found.append(nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)
        except nvml.NVMLError:
            found.append(None)
    return found


class GpuWatch:
    """Reads the GPUs of this machine from time to time, in a thread."""

    def __init__(self, node: str) -> None:
        self._node, self._ended = node, threading.Event()
        self._busy: tuple[float | None, ...] = ()

    def begin(self) -> None:
        """Read until `close`."""
        threading.Thread(target=self._run, name="muster-gpu-watch", daemon=True).start()

    def close(self) -> None:
        """End after the reading in progress."""
        self._ended.set()

    def busy(self) -> Mapping[str, tuple[float | None, ...]]:
        """Return what was read last, by node."""
        return {self._node: self._busy} if self._busy else {}

    def _run(self) -> None:
        command = [sys.executable, "-P", "-m", "muster.executors.gpu_watch"]
        while not self._ended.is_set():
            with contextlib.suppress(subprocess.SubprocessError, ValueError, OSError):
                done = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT)
                self._busy = tuple(json.loads(done.stdout))
            self._ended.wait(EVERY)


def _print_busy() -> None:
    import pynvml  # type: ignore[import-untyped]

    pynvml.nvmlInit()
    json.dump(read_busy(pynvml, handles_of(pynvml)), sys.stdout)


if __name__ == "__main__":
    _print_busy()
