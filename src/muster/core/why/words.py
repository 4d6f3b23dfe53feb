"""Reasons and placements as text."""

from muster.model.placement import Placement
from muster.model.reason import SENTENCES, Reason
from muster.model.topology import each_bit

_MOST_HOURS = 100
"""From here on times are shown in days."""


def tell(reason: Reason) -> str:
    """Return one line: the sentence of the code, then its figures."""
    parts = [SENTENCES[reason.code], *_figures(reason)]
    if reason.holders:
        held = ", ".join(f"{holder.name} ({holder.devices})" for holder in reason.holders)
        parts.append(f"held by {held}")
    if reason.would_start is not None:
        parts.append(f"would start now with {reason.would_start.field}: {reason.would_start.value}")
    return "; ".join(parts)


def clock(seconds: float) -> str:
    """`3d04h`, `1h05m` or `4m30s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= _MOST_HOURS:
        return f"{hours // 24}d{hours % 24:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def _figures(reason: Reason) -> list[str]:
    found = []
    if reason.beneficiary is not None:
        waits = reason.code.startswith("waiting.")
        found.append(f"{'kept for' if waits else 'for'} {reason.beneficiary}")
    if reason.shortfall is not None:
        short = reason.shortfall
        within = "" if short.widest.word == "any" else f" within one {short.widest.word}"
        found.append(f"needs {short.asked}, {short.free} free, at most {short.largest}{within}")
    if reason.quantity is not None:
        q = reason.quantity
        found.append(f"needs {q.asked}, pool {q.pool} uses {q.used} of {q.bound} {q.device_type}")
    if reason.cost is not None:
        price = f"costs {reason.cost:,.0f} device-seconds"
        found.append(price if reason.gain is None else f"{price}, gains {reason.gain:,.0f}")
    if reason.lost is not None:
        found.append(f"no checkpoint: {clock(reason.lost)} of work lost")
    return found


def where(placement: Placement) -> str:
    """Return nodes and devices, `gpu1[0-3] gpu2[0,5]`; a node without devices in use is bare."""
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
