"""Durations as users write them."""

_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("m", 60.0))


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
