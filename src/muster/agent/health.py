"""How the node is: what `AgentAlive.health` says, with the keys of `wire.records.NodeHealth`."""

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from muster.executors.gpus import handles_of

SLOWED = {
    "nvmlClocksThrottleReasonHwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
}
"""Reasons of a low clock that are faults, the most telling first; power caps are not."""


class HealthProbe:
    """Measures the node; keeps NVML open if there are GPUs."""

    def __init__(self, folder: Path, only: Sequence[str] | None = None, nvml: Any = None) -> None:
        """`only`: the GPUs with these numbers or UUIDs; `nvml`: the library, for tests."""
        self._folder, self._nvml, self._events = folder, nvml, None
        self._handles: list[Any] = []
        self._xids: dict[int, None] = {}
        """The numbers of the driver's errors so far, in their order."""
        self._open(only)

    def measure(self) -> dict[str, Any]:
        """Return how the node is now; what is unknown is left out."""
        found: dict[str, Any] = {
            "load": round(os.getloadavg()[0], 2),
            "disk_free": shutil.disk_usage(self._folder).free,
        }
        with contextlib.suppress(OSError, ValueError):
            found["memory_free"] = _memory_free()
        return found | self._devices()

    def close(self) -> None:
        if self._handles:
            self._nvml.nvmlShutdown()
            self._handles = []

    def _open(self, only: Sequence[str] | None) -> None:
        if self._nvml is None:
            import pynvml  # type: ignore[import-untyped]

            self._nvml = pynvml
        nvml = self._nvml
        try:
            nvml.nvmlInit()
        except nvml.NVMLError:
            return  # no driver: no GPUs
        with contextlib.suppress(nvml.NVMLError):
            self._handles = handles_of(nvml, only)
        if not self._handles:
            nvml.nvmlShutdown()
            return
        with contextlib.suppress(nvml.NVMLError):  # not every driver tells of errors
            self._events = nvml.nvmlEventSetCreate()
            for handle in self._handles:
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)

    def _devices(self) -> dict[str, Any]:
        if not self._handles:
            return {}
        self._listen()
        found: dict[str, Any] = {"xids": list(self._xids)}
        heat = [(heat, handle) for handle in self._handles for heat in self._told(self._heat, handle)]
        if heat:
            hottest, handle = max(heat, key=lambda each: each[0])
            found["temperature"] = hottest
            for limit in self._told(self._limit, handle):
                found["slowdown"] = limit
        found["ecc"] = sum(sum(self._told(self._ecc, handle)) for handle in self._handles)
        slowed = [why for handle in self._handles for why in self._told(self._slowed, handle) if why]
        found["throttled"] = ", ".join(dict.fromkeys(slowed))
        return found

    def _told(self, read: Callable[[Any], Any], handle: Any) -> list[Any]:
        """Return what NVML says of a device; nothing if it does not."""
        try:
            return [read(handle)]
        except self._nvml.NVMLError:
            return []

    def _listen(self) -> None:
        """Hear of the driver's errors since the last time."""
        if self._events is None:
            return
        with contextlib.suppress(self._nvml.NVMLError):  # a timeout: there are no more
            while True:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                self._xids[int(event.eventData)] = None

    def _heat(self, handle: Any) -> int:
        return int(self._nvml.nvmlDeviceGetTemperature(handle, self._nvml.NVML_TEMPERATURE_GPU))

    def _limit(self, handle: Any) -> int:
        kind = self._nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        return int(self._nvml.nvmlDeviceGetTemperatureThreshold(handle, kind))

    def _ecc(self, handle: Any) -> int:
        kind = self._nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        return int(self._nvml.nvmlDeviceGetTotalEccErrors(handle, kind, self._nvml.NVML_VOLATILE_ECC))

    def _slowed(self, handle: Any) -> str:
        bits = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        found = (why for name, why in SLOWED.items() if bits & getattr(self._nvml, name, 0))
        return next(found, "")


def _memory_free() -> int:
    """Bytes of the machine's memory that programs can still have."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise ValueError("the kernel does not say")
