"""How the node is, for `AgentAlive.health`.

load      processes that want a core, on average over a minute
memory    {"free", "total"}: bytes
disk      {"free", "total"}: bytes of the file system with the agent's folder
  devices   of each GPU: "temperature" (degrees Celsius), "power" (W), "used" (0 to 1 of its time),
            "memory" (bytes in use), "clock" (0 to 1 of its highest), "slowed" (why its clock is low),
            "ecc" (uncorrected errors since boot), "xid" (the last critical error of the driver); each
            where NVML tells
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from muster.executors.gpus import handles_of

SLOWED = {
    "nvmlClocksThrottleReasonHwSlowdown": "hardware",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "heat (driver)",
}
"""Reasons of a low clock that are faults; idle devices and power caps are not."""


class HealthProbe:
    """Measures the node; keeps NVML open if there are GPUs."""

    def __init__(self, folder: Path, only: Sequence[str] | None = None, nvml: Any = None) -> None:
        self._folder = folder
        self._nvml, self._events = nvml, None
        self._handles: list[Any] = []
        self._xids: dict[int, int] = {}
        """The last critical error of each GPU, by its place."""
        self._open(only)

    def measure(self) -> dict[str, Any]:
        """Return how the node is now."""
        usage = shutil.disk_usage(self._folder)
        found: dict[str, Any] = {
            "load": round(os.getloadavg()[0], 2),
            "memory": _memory(),
            "disk": {"free": usage.free, "total": usage.total},
        }
        if self._handles:
            self._listen()
            found["devices"] = [self._device(i) for i in range(len(self._handles))]
        return found

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
            return  # no driver
        try:
            self._handles = handles_of(nvml, only)
        except nvml.NVMLError:
            self._handles = []
        if not self._handles:
            nvml.nvmlShutdown()
            return
        with contextlib.suppress(nvml.NVMLError):  # not every driver tells of errors
            self._events = nvml.nvmlEventSetCreate()
            for handle in self._handles:
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)

    def _listen(self) -> None:
        """Hear of the critical errors since the last time."""
        nvml = self._nvml
        if self._events is None:
            return
        with contextlib.suppress(nvml.NVMLError):  # a timeout: there are no more
            while True:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                place = self._place(event.device)
                if place is not None:
                    self._xids[place] = int(event.eventData)

    def _place(self, handle: Any) -> int | None:
        uuid = self._nvml.nvmlDeviceGetUUID
        named = uuid(handle)
        return next((i for i, each in enumerate(self._handles) if uuid(each) == named), None)

    def _device(self, place: int) -> dict[str, Any]:
        nvml, handle = self._nvml, self._handles[place]
        ecc = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        readings: dict[str, Callable[[], Any]] = {
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "power": lambda: round(nvml.nvmlDeviceGetPowerUsage(handle) / 1000, 1),
            "used": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            "memory": lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used),
            "clock": lambda: self._clock(handle),
            "slowed": lambda: self._slowed(handle),
            "ecc": lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, *ecc),
            "xid": lambda: self._xids[place],
        }
        found: dict[str, Any] = {}
        for name, read in readings.items():
            with contextlib.suppress(nvml.NVMLError, KeyError):  # not every device tells
                found[name] = read()
        return found

    def _clock(self, handle: Any) -> float:
        nvml = self._nvml
        now, most = (
            read(handle, nvml.NVML_CLOCK_SM)
            for read in (nvml.nvmlDeviceGetClockInfo, nvml.nvmlDeviceGetMaxClockInfo)
        )
        return round(now / most, 2) if most else 0.0

    def _slowed(self, handle: Any) -> list[str]:
        bits = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        return [words for name, words in SLOWED.items() if bits & getattr(self._nvml, name, 0)]


def _memory() -> dict[str, int]:
    """Bytes of the machine's memory."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                found["total" if name == "MemTotal" else "free"] = int(value.split()[0]) * 1024
    return found
