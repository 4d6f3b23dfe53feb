"""The node's GPUs, from NVML in a process of its own: `python -m muster.agent.node.devices [NAMES]`.

NVML would take as much memory as the rest of the agent (18 MB with driver 580), and a driver that hangs
would hang the agent.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from muster.executors.gpu_watch import read_busy
from muster.executors.gpus import Gpus, MixedError, find_gpus, handles_of

DRIVERS = ("/dev/nvidiactl", "/dev/dxg")
"""Where there are GPUs that NVML knows, there is one of these."""
TIMEOUT = 30.0
"""s for the driver to answer: it may have to initialise eight GPUs."""

SLOWED = {
    "nvmlClocksThrottleReasonHwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
}
"""Reasons of a low clock that are faults, the most telling first; power caps are not."""


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What NVML says."""

    gpus: Gpus | None = None
    mixed: str = ""
    """The types, if there are several."""
    health: dict[str, Any] = field(default_factory=dict)
    """As in `AgentAlive.health`."""
    buses: tuple[str, ...] = ()
    """PCI addresses of the GPUs ("0000:00:06"), as the kernel's log names them."""


def read_devices(only: Sequence[str] | None = None) -> DeviceReading:
    """Read the GPUs, or those with these numbers or UUIDs, in a child; nothing if the driver hangs."""
    if not any(Path(path).exists() for path in DRIVERS):
        return DeviceReading()
    names = [] if only is None else [",".join(only)]
    command = [sys.executable, "-P", "-m", "muster.agent.node.devices", *names]
    with contextlib.suppress(subprocess.SubprocessError, LookupError, ValueError, OSError):
        done = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT)
        found = json.loads(done.stdout)
        gpus, buses = found["gpus"], tuple(found["buses"])
        return DeviceReading(gpus and _gpus(gpus), found["mixed"], found["health"], buses)
    return DeviceReading()


def ask_nvml(only: Sequence[str] | None = None, nvml: Any = None) -> DeviceReading:
    """Read the GPUs in this process. `nvml`: the library, for tests."""
    if nvml is None:
        import pynvml as nvml  # type: ignore[import-untyped,no-redef]
    mixed, gpus = "", None
    try:
        gpus = find_gpus(nvml, only)
    except MixedError as problem:
        mixed = str(problem)
    if gpus is None:
        return DeviceReading(mixed=mixed)
    nvml.nvmlInit()
    try:
        handles = handles_of(nvml, only)
        return DeviceReading(gpus, mixed, _health(nvml, handles), _buses(nvml, handles))
    finally:
        nvml.nvmlShutdown()


def _health(nvml: Any, handles: Sequence[Any]) -> dict[str, Any]:
    """Of the hottest device the temperature, of all together the errors and faults."""

    def told(read: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
        """What NVML says of each device of which it says something."""
        found = []
        for handle in handles:
            with contextlib.suppress(nvml.NVMLError):
                found.append((read(handle), handle))
        return found

    found: dict[str, Any] = {}
    heat = told(lambda handle: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    if heat:
        found["temperature"], hottest = max(heat, key=lambda each: each[0])
        with contextlib.suppress(nvml.NVMLError):
            kind = nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
            found["slowdown"] = nvml.nvmlDeviceGetTemperatureThreshold(hottest, kind)
    uncorrected = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    errors = told(lambda handle: nvml.nvmlDeviceGetTotalEccErrors(handle, *uncorrected))
    found["ecc"] = sum(count for count, _ in errors)
    slowed = [why for why, _ in told(lambda handle: _slowed(nvml, handle)) if why]
    found["throttled"] = ", ".join(dict.fromkeys(slowed))
    found["busy"] = read_busy(nvml, handles)
    return found


def _slowed(nvml: Any, handle: Any) -> str:
    bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return next((why for name, why in SLOWED.items() if bits & getattr(nvml, name, 0)), "")


def _buses(nvml: Any, handles: Sequence[Any]) -> tuple[str, ...]:
    found = []
    for handle in handles:
        with contextlib.suppress(nvml.NVMLError):
            pci = nvml.nvmlDeviceGetPciInfo(handle)
            found.append(f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}")
    return tuple(found)


def _gpus(record: dict[str, Any]) -> Gpus:
    groups = {name: tuple(record[name]) for name in ("sockets", "switches")}
    return Gpus(**(record | groups))


if __name__ == "__main__":
    wanted = tuple(filter(None, sys.argv[1].split(","))) if len(sys.argv) > 1 else None
    json.dump(asdict(ask_nvml(wanted)), sys.stdout)
