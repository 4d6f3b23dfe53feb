"""Reasons, places, times and sizes in words and figures a person reads."""

import time

from muster.core.outcome import MigrationReport
from muster.model.placement import Placement
from muster.model.reason import SENTENCES, Reason
from muster.model.topology import each_bit

_HOURS_TOLD = 100
"""From so many hours on they are told in days."""


def tell(reason: Reason) -> str:
    """One line: the sentence of the code, then its figures."""
    parts = [SENTENCES[reason.code], *_figures(reason)]
    if reason.holders:
        held = ", ".join(f"{holder.job} ({holder.devices})" for holder in reason.holders)
        parts.append(f"held by {held}")
    if reason.would_start is not None:
        parts.append(f"would start now with {reason.would_start.field}: {reason.would_start.value}")
    return "; ".join(parts)


def _figures(reason: Reason) -> list[str]:
    found = []
    if reason.beneficiary is not None:
        waits = reason.code.startswith("waiting.")
        found.append(f"{'kept for' if waits else 'for'} {reason.beneficiary}")
    if reason.shortfall is not None:
        short = reason.shortfall
        within = "" if short.widest.word == "any" else f" within one {short.widest.word}"
        found.append(f"asks {short.asked}, {short.free} free, at most {short.largest}{within}")
    if reason.quantity is not None:
        q = reason.quantity
        found.append(f"asks {q.asked}, pool {q.pool} uses {q.used} of {q.bound} {q.device_type}")
    if reason.cost is not None:
        price = f"costs {reason.cost:,.0f} device-seconds"
        found.append(price if reason.gain is None else f"{price}, gains {reason.gain:,.0f}")
    return found


def describe(report: MigrationReport) -> str:
    """A migration in one line: for whom, who moves, the price, and fragmentation before and after."""
    return (
        f"migration for {report.job}: {', '.join(report.moved)} moved; costs {report.cost:,.0f} "
        f"device-seconds, gains {report.gain:,.0f}; "
        f"fragmentation {report.fragmentation_before:.0%} -> {report.fragmentation_after:.0%}"
    )


def where(placement: Placement) -> str:
    """Nodes and devices: `gpu1[0-3] gpu2[0,5]`; a node where only tasks without devices run is bare."""
    return " ".join(
        f"{node}[{_ranges(bits)}]" if bits else node for node, bits in placement.bits().items()
    )


def _ranges(bits: int) -> str:
    runs: list[list[int]] = []
    for position in each_bit(bits):
        if runs and runs[-1][-1] == position - 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def clock(seconds: float) -> str:
    """`3d04h`, `1h05m` or `4m30s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= _HOURS_TOLD:
        return f"{hours // 24}d{hours % 24:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def size(count: int) -> str:
    """Bytes in the unit a person reads: `102.2 MB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count} B"


def when(at: float | None, now: float) -> str:
    """A moment as seen from now: `in 4m30s`, `4m30s ago`, or a dash where nobody knows."""
    if at is None:
        return "-"
    return f"in {clock(at - now)}" if at > now else f"{clock(now - at)} ago"


def moment(at: float) -> str:
    """A moment on the clock of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def counted(count: int, noun: str) -> str:
    """`1 worker`, `3 workers`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
