"""How nodes are: what agents say, and what makes a node unfit for tasks."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from muster.model.topology import MAX_DEVICES
from muster.wire.api.records import NodeHealth

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

FULL = f"its disk is full (less than {DISK_FULL // 10**6} MB free)"

MOST = 2**53
MAX_XIDS = 32
LONGEST = 120


def read_health(said: Mapping[str, Any], age: float = 0.0) -> NodeHealth:
    """Return what an agent says of its node. Agents are not trusted: what cannot be is left out."""
    xids = said.get("xids")
    whole = [_number(each) for each in xids[:MAX_XIDS]] if isinstance(xids, list | tuple) else []
    throttled = said.get("throttled")
    text = throttled if isinstance(throttled, str) and throttled.isprintable() else ""
    return NodeHealth(
        temperature=_number(said.get("temperature")),
        slowdown=_number(said.get("slowdown")),
        ecc=int(_number(said.get("ecc")) or 0),
        xids=tuple(dict.fromkeys(int(each) for each in whole if each is not None)),
        throttled=text[:LONGEST],
        disk_free=_whole(said.get("disk_free")),
        memory_free=_whole(said.get("memory_free")),
        load=_number(said.get("load")),
        age=age,
        shares=said["shares"] if isinstance(said.get("shares"), bool) else None,
        busy=_parts(said.get("busy")),
    )


def _parts(said: Any) -> tuple[float | None, ...]:
    """Return how busy devices are; what is no part of one is unknown."""
    numbers = [_number(each) for each in said[:MAX_DEVICES]] if isinstance(said, list | tuple) else []
    return tuple(each if each is not None and 0 <= each <= 1 else None for each in numbers)


def unhealthy(health: NodeHealth) -> str:
    """Return why a node should get no tasks; empty: it is well. The worst comes first."""
    for xid in health.xids:
        if xid in BROKEN:
            return f"a device reported Xid {xid} ({BROKEN[xid]})"
    if health.ecc:
        errors = "error" if health.ecc == 1 else "errors"
        return f"devices have {health.ecc} uncorrected memory {errors}"
    if health.temperature and health.slowdown and health.temperature > health.slowdown:
        return f"a device is hotter than {health.slowdown:.0f} °C, where it slows itself down"
    if health.disk_free is not None and health.disk_free < DISK_FULL:
        return FULL
    return ""


def recovered(why: str, health: NodeHealth) -> bool:
    """Whether the cause of a drain is gone by itself. Devices that failed need an administrator."""
    return why == FULL and health.disk_free is not None and health.disk_free >= DISK_ROOM


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) and 0 <= value <= MOST else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
