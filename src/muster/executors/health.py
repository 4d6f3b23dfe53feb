"""How nodes are: what agents say, and what makes a node unfit for tasks."""

from collections.abc import Mapping
from typing import Any

from muster.model.topology import MAX_DEVICES
from muster.wire.records import DeviceHealth, NodeHealth

BROKEN = {
    48: "double-bit memory error",
    63: "memory rows to be remapped",
    64: "memory rows could not be remapped",
    74: "NVLink error",
    79: "fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "its firmware does not answer",
    120: "error of its firmware",
    140: "unrecovered memory error",
}
"""Xid errors after which a device needs a reset or a replacement, from NVIDIA's catalogue. Others come
from programs."""

DISK_FULL = 512 * 10**6
"""Bytes free below which tasks could not write their logs for long."""
DISK_ROOM = 2 * DISK_FULL
"""Bytes free from which a node that was full is used again."""

HEAT = "heat"
"""As agents call it when the hardware lowers a clock because of the temperature."""
FULL = f"its disk is full (less than {DISK_FULL // 10**6} MB free)"

MOST = 2**53
LONGEST = 40
MAX_SLOWED = 8


def read_health(said: Mapping[str, Any], age: float = 0.0) -> NodeHealth:
    """Return what an agent says of its node (`agent/health.py`). Agents are not trusted: what cannot be
    is left out."""
    devices = said.get("devices")
    memory, disk = _mapping(said.get("memory")), _mapping(said.get("disk"))
    return NodeHealth(
        devices=tuple(
            _device(_mapping(each)) for each in (devices if isinstance(devices, list | tuple) else ())
        )[:MAX_DEVICES],
        load=_number(said.get("load")),
        memory_free=_whole(memory.get("free")),
        memory_total=_whole(memory.get("total")),
        disk_free=_whole(disk.get("free")),
        disk_total=_whole(disk.get("total")),
        age=age,
        shares=said["shares"] if isinstance(said.get("shares"), bool) else None,
    )


def unhealthy(health: NodeHealth) -> str:
    """Return why a node should get no tasks; empty: it is well. The worst comes first."""
    for number, device in enumerate(health.devices):
        if device.xid in BROKEN:
            return f"device {number} reported Xid {device.xid} ({BROKEN[device.xid]})"
    for number, device in enumerate(health.devices):
        if device.ecc:
            errors = "error" if device.ecc == 1 else "errors"
            return f"device {number} has {device.ecc} uncorrected memory {errors}"
    for number, device in enumerate(health.devices):
        if HEAT in device.slowed:
            return f"device {number} is so hot that its hardware slows it down"
    if health.disk_free is not None and health.disk_free < DISK_FULL:
        return FULL
    return ""


def recovered(why: str, health: NodeHealth) -> bool:
    """Whether the cause of a drain is gone by itself. Devices that failed need an administrator."""
    return why == FULL and health.disk_free is not None and health.disk_free >= DISK_ROOM


def _device(said: Mapping[str, Any]) -> DeviceHealth:
    slowed = said.get("slowed")
    words = (
        [each for each in slowed if isinstance(each, str)] if isinstance(slowed, list | tuple) else []
    )
    return DeviceHealth(
        temperature=_number(said.get("temperature")),
        power=_number(said.get("power")),
        used=_number(said.get("used")),
        memory=_whole(said.get("memory")),
        clock=_number(said.get("clock")),
        slowed=tuple(each[:LONGEST] for each in words if each.isprintable())[:MAX_SLOWED],
        ecc=_whole(said.get("ecc")) or 0,
        xid=_whole(said.get("xid")),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST else None  # neither NaN nor infinite


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
