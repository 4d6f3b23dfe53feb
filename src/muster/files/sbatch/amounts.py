"""How Slurm writes times, sizes, devices and arrays."""

import re
from collections.abc import Iterator

_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)B?", re.IGNORECASE)
_BYTES = {"K": 2**10, "": 2**20, "M": 2**20, "G": 2**30, "T": 2**40}
_SPAN = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
MOST_MEMBERS = 100_000


def seconds_of_time(text: str) -> int | None:
    """`90` (minutes), `30:00`, `1:30:00`, `2-12`, `2-12:30`: s; None for no limit."""
    if text.upper() in ("UNLIMITED", "INFINITE", "0"):
        return None
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time of Slurm's; write for example 2-12:00:00")
    days, *parts = (int(part) if part else None for part in found.groups())
    first, second, third = (part or 0 for part in parts)
    if days is not None:
        return days * 86400 + first * 3600 + second * 60 + third
    if parts[2] is not None:
        return first * 3600 + second * 60 + third
    return first * 60 + second


def bytes_of(text: str) -> int:
    """`4000` (MiB), `64G`, `1.5T`: bytes."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size of Slurm's; write for example 64G")
    return round(float(found[1]) * _BYTES[found[2].upper()])


def gpus_of(text: str) -> tuple[str, int]:
    """`4`, `a100:4`, `a100`: type (empty: any) and count."""
    kind, _, count = text.rpartition(":")
    if not count.isdigit():
        kind, count = text, "1"
    if ":" in kind or "," in text:
        raise ValueError(f"{text!r} names several types; ask for one")
    return kind, int(count)


def gres_of(text: str) -> tuple[str, int] | None:
    """`gpu:a100:4`, `gpu:2,shard:1`: type and count of GPUs; None: there are none."""
    for each in text.split(","):
        name, _, rest = each.removeprefix("gres/").partition(":")
        if name.partition("=")[0] == "gpu":
            return gpus_of((rest or name.partition("=")[2] or "1").partition("(")[0])
    return None


def check_array(text: str) -> None:
    """Raise ValueError unless the text is an array of Slurm's: `0-9%4`, `1,3,5-9:2`."""
    spans, percent, most = text.partition("%")
    found = list(_indices(spans))
    if (percent and not most.isdigit()) or len(set(found)) != len(found):
        raise ValueError(f"{text!r} is no array of Slurm's; write for example 0-9%4")


def _indices(spans: str) -> Iterator[int]:
    for span in spans.split(","):
        found = _SPAN.fullmatch(span)
        if found is None:
            raise ValueError(f"{span!r} is no index or range; write for example 0-9")
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or step < 1 or (last - first) // step >= MOST_MEMBERS:
            raise ValueError(f"{span!r} is no range; write for example 0-9")
        yield from range(first, last + 1, step)
