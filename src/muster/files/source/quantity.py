"""Amounts as people write them: `24GB`, `2h`, `16GB/s`, `8.2G`, `5%`, `1..8`, `V100:4`.

Every function takes text and raises ValueError with a message that shows valid input. A size or a time
without a unit is refused rather than guessed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from muster.files.errors import FieldError, Loc, did_you_mean, shown

# Bounded digits: nothing real needs more, and the arithmetic stays cheap and exact.
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_WITH_UNIT = re.compile(rf"({_NUMBER})\s*([A-Za-z/]*)")

_PREFIXES = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZES = {
    **{f"{prefix}B": 1000**power for prefix, power in _PREFIXES.items()},
    **{f"{prefix}iB": 1024**power for prefix, power in _PREFIXES.items() if prefix},
    "kB": 1000,
}
_RATES = {
    **{f"{unit}/s": Fraction(factor) for unit, factor in _SIZES.items()},
    **{f"{prefix}bit/s": Fraction(1000**power, 8) for prefix, power in _PREFIXES.items()},
    "kbit/s": Fraction(1000, 8),
}
_OPERATIONS = {prefix: 1000**power for prefix, power in _PREFIXES.items()}
_SECONDS = {
    "d": Fraction(86_400),
    "h": Fraction(3_600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}
_DURATION = re.compile(r"\s*".join(rf"(?:(?P<{unit}>{_NUMBER}){unit}(?![a-z]))?" for unit in _SECONDS))
_RANGE = re.compile(r"([0-9]{1,15})(?:\s*\.\.\s*([0-9]{1,15}))?")
_OTHER_RANGE = re.compile(r"([0-9]{1,15})\s*(?:-|:|\.\.\.|to)\s*([0-9]{1,15})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TENSOR = re.compile(r"[!-~]{1,200}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]{0,62}")

MAX_BYTES = 1 << 62
"""Above any memory, below 64 bits."""

MAX_SECONDS = 100 * 365 * 86_400

MAX_OPERATIONS = 10**21
"""Of one sample: a million times the largest models."""

KNOWN = 64
"""Sizes and times cached: every job has the same defaults."""

MAX_PRIORITY = 1_000_000
"""Far above what anybody needs to order jobs."""
MAX_TASKS = 100_000
"""Tasks of one role: more is a typo."""


@dataclass(frozen=True, slots=True)
class Counts:
    """From least to most."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Devices:
    """A number of devices, and their type if given."""

    device_type: str | None
    counts: Counts


@dataclass(frozen=True, slots=True)
class PoolAmount:
    """Devices of a pool: a number, or a part of those there are."""

    devices: int = 0
    part: float | None = None


@lru_cache(KNOWN)
def parse_size(text: str) -> int:
    """Bytes: `24GB` (decimal), `512MiB` (binary)."""
    size = round(_measure(text, "size", _SIZES, "24GB or 512MiB"))
    if size > MAX_BYTES:
        raise ValueError(f"{shown(text)} is too large; write for example 24GB")
    return size


def parse_rate(text: str) -> float:
    """Bytes/s: `16GB/s`, `100Gbit/s`."""
    rate = _measure(text, "rate", _RATES, "16GB/s or 100Gbit/s")
    if not 0 < rate <= MAX_BYTES:
        raise ValueError(f"{shown(text)} is out of range; write for example 16GB/s")
    return float(rate)


@lru_cache(KNOWN)
def parse_duration(text: str) -> float:
    """Seconds: `2h`, `30m`, `1h30m`, `45s`, `250ms`, `5us`, `2d`."""
    example = "2h, 1h30m, 45s or 250ms"
    found = _DURATION.fullmatch(text)
    parts = {unit: n for unit, n in found.groupdict().items() if n} if found else {}
    if not parts:
        _refuse_bare_number(text, example)
        raise ValueError(f"{shown(text)} is not a time; write for example {example}")
    seconds = sum(Fraction(number) * _SECONDS[unit] for unit, number in parts.items())
    if seconds > MAX_SECONDS:
        raise ValueError(f"{shown(text)} is longer than a hundred years; write for example {example}")
    return float(seconds)


def parse_operations(text: str) -> float:
    """Floating-point operations: `8.2G` is 8.2e9, `120M`, `1500`."""
    count = _measure(text, "number of operations", _OPERATIONS, "8.2G or 120M")
    if not 0 < count <= MAX_OPERATIONS:
        raise ValueError(f"{shown(text)} is out of range; write for example 8.2G")
    return float(count)


def parse_percentage(text: str) -> float:
    """A part of one: `5%` is 0.05."""
    found = re.fullmatch(rf"({_NUMBER})\s*%", text)
    if not found:
        raise ValueError(f"{shown(text)} is not a percentage; write for example 5%")
    return float(Fraction(found[1]) / 100)


def parse_pool_amount(text: str, most: int) -> PoolAmount:
    """Devices of a pool: `8`, or `25%` of all."""
    if not text.rstrip().endswith("%"):
        return PoolAmount(parse_whole(text, 0, most))
    part = parse_percentage(text)
    if part > 1:
        raise ValueError(f"must be at most 100%, not {shown(text)}")
    return PoolAmount(part=part)


def parse_cores(text: str) -> int:
    """Thousandths of a core: `0.5` is 500."""
    if not re.fullmatch(_NUMBER, text):
        raise ValueError(f"{shown(text)} is not a number of cores; write for example 4 or 0.5")
    millicores = Fraction(text) * 1000
    if millicores.denominator != 1:
        raise ValueError(
            f"{shown(text)} is more precise than a thousandth of a core; write for example 0.5"
        )
    return int(millicores)


def parse_number(text: str) -> float:
    """A plain number of 0 or more."""
    if not re.fullmatch(_NUMBER, text):
        raise ValueError(f"{shown(text)} is not a number of 0 or more; write for example 2 or 0.5")
    return float(text)


def parse_part(text: str) -> float:
    """A part of one, not nothing: `0.25`."""
    if not re.fullmatch(_NUMBER, text) or not 0 < Fraction(text) <= 1:
        raise ValueError(f"{shown(text)} is not above 0 and at most 1; write for example 0.25")
    return float(text)


def parse_whole(text: str, least: int, most: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,15}", text):
        example = min(max(4, least), most)
        raise ValueError(f"{shown(text)} is not a whole number; write for example {example}")
    number = int(text)
    if number < least:
        raise ValueError(f"must be at least {least}, not {number}")
    if number > most:
        raise ValueError(f"must be at most {most}, not {number}")
    return number


def parse_counts(text: str, fewest: int = 0, largest: int = MAX_TASKS) -> Counts:
    """A count or a range of counts: `4`, `1..8`."""
    found = _RANGE.fullmatch(text)
    if not found:
        other = _OTHER_RANGE.fullmatch(text)
        hint = f" (did you mean '{other[1]}..{other[2]}'?)" if other else ""
        raise ValueError(f"{shown(text)} is not a count; write for example 4 or 1..8{hint}")
    least = int(found[1])
    most = int(found[2]) if found[2] else least
    if least > most:
        raise ValueError(f"{shown(text)} runs backwards (did you mean '{most}..{least}'?)")
    if most > largest:
        raise ValueError(f"must be at most {largest}, not {most}")
    if least < fewest:
        raise ValueError(f"must be at least {fewest}, not {least}")
    return Counts(least, most)


def parse_devices(text: str) -> Devices:
    """Devices, with or without their type: `4`, `1..8`, `V100:4`, `V100:1..8`."""
    kind, colon, counts = text.rpartition(":")
    if not colon and re.match(r"[A-Za-z]", text):
        raise ValueError(f"{shown(text)} has no count; write for example V100:4 or 1..8")
    return Devices(parse_name(kind.strip()) if colon else None, parse_counts(counts.strip()))


def parse_name(text: str) -> str:
    """A name: letters, digits, dot, dash and underscore, at most 63."""
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{shown(text)} is not a name; use up to 63 letters, digits, '.', '-' and '_', "
            "for example lab-1"
        )
    return text


def name_at(loc: Loc, text: str) -> str:
    """Parse a name; the error is that of its place."""
    try:
        return parse_name(text)
    except ValueError as error:
        raise FieldError(loc, str(error)) from None


def default_name(text: str, called: str) -> str:
    """Return a name derived from what is `called` so, where none is given."""
    try:
        return parse_name(text)
    except ValueError:
        problem = f"is missing, and {called} is not a valid name; write for example resnet50"
        raise FieldError(("name",), problem) from None


def parse_tensor_name(text: str) -> str:
    """A tensor's name: up to 200 characters of ASCII, no spaces."""
    if not _TENSOR.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a tensor's name; write for example fc.weight")
    return text


def parse_user(text: str) -> str:
    """A user: a login name or an address."""
    if not _USER.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a user's name; write for example ada")
    return text


def parse_allowed(text: str) -> str:
    """Who may use something: a user, or the Unix group of `@group`."""
    return "@" + parse_user(text[1:]) if text.startswith("@") else parse_user(text)


def parse_flag(text: str) -> bool:
    if text not in _FLAGS:
        raise ValueError(f"{shown(text)} is neither true nor false")
    return _FLAGS[text]


_FLAGS = {"true": True, "yes": True, "false": False, "no": False}


def _measure(text: str, kind: str, units: Mapping[str, int | Fraction], example: str) -> Fraction:
    found = _WITH_UNIT.fullmatch(text)
    if not found:
        raise ValueError(f"{shown(text)} is not a {kind}; write for example {example}")
    number, unit = found[1], found[2]
    if unit not in units:
        _refuse_bare_number(text, example)
        # `Gb/s` and `Gbps` are bits, though `GB/s` is spelt more like them; `GFLOP` is `G` operations.
        meant = number + re.sub(r"FLOPs?$", "", re.sub(r"b(?:/s|ps)$", "bit/s", unit))
        hint = did_you_mean(meant, [number + known for known in units])
        raise ValueError(f"{shown(text)} is not a {kind}; write for example {example}{hint}")
    return Fraction(number) * units[unit]


def _refuse_bare_number(text: str, example: str) -> None:
    if re.fullmatch(_NUMBER, text):
        raise ValueError(f"{shown(text)} has no unit; write for example {example}")
