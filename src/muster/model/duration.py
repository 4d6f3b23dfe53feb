"""Durations as users write and read them."""

_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("m", 60.0))
_MOST_HOURS = 100
"""From here on times are shown in days."""


def spelt(seconds: float) -> str:
    """Return a duration as in a job file: `4h`, `1h30m`, `90.5s`."""
    parts = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count:.0f}{unit}")
    if seconds or not parts:
        parts.append(f"{seconds:g}s")
    return "".join(parts)


def clock(seconds: float) -> str:
    """`3d04h`, `1h05m` or `4m30s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= _MOST_HOURS:
        return f"{hours // 24}d{hours % 24:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def in_hours(hours: float) -> str:
    """Device-hours for people: `0.00212`, `412.7`, `5,000.3`."""
    return f"{hours:,.1f}" if hours >= 10.0 else f"{hours:.3g}"
