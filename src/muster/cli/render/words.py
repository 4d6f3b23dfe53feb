"""Migrations, times and sizes as people read them."""

import time
from typing import TYPE_CHECKING

from muster.model.duration import clock as clock

if TYPE_CHECKING:
    from muster.core.cycle.outcome import MigrationReport
    from muster.model.view import View


def describe(report: "MigrationReport", view: "View") -> str:
    """Describe a migration: for which job, what moves, the cost, and fragmentation before and after."""
    moved = ", ".join(view.jobs[number].job.name for number in report.moved)
    return (
        f"migration for {view.jobs[report.job].job.name}: {moved} moved; costs {report.cost:,.0f} "
        f"device-seconds, gains {report.gain:,.0f}; "
        f"fragmentation {report.fragmentation_before:.0%} -> {report.fragmentation_after:.0%}"
    )


def size(count: int) -> str:
    """Bytes in a readable unit: `102.2 MB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count} B"


def when(at: float | None, now: float) -> str:
    """A time relative to now: `in 4m30s`, `4m30s ago`, or a dash if unknown."""
    if at is None:
        return "-"
    return f"in {clock(at - now)}" if at > now else f"{clock(now - at)} ago"


def moment(at: float) -> str:
    """A time in this machine's zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def counted(count: int, noun: str) -> str:
    """`1 worker`, `3 workers`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def short(seconds: float) -> str:
    """A short time: `0`, `12 ms`, `3.4s`."""
    if seconds <= 0:
        return "0"
    return f"{seconds:.1f}s" if seconds >= 1 else f"{max(1, round(seconds * 1000))} ms"
