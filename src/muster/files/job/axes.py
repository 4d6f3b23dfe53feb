"""Values of a sweep's parameters, as people write them: `0.1,0.01`, `1..4`, `1e-5..1e-1:log`."""

import re
from collections.abc import Sequence

from muster.files.errors import repeated, shown
from muster.model.sweep import INDEX, Asha, Axis

_REAL = r"[+-]?[0-9]{1,15}(?:\.[0-9]{0,15})?(?:[eE][+-]?[0-9]{1,3})?"
_RANGE = re.compile(rf"({_REAL})\s*\.\.\s*({_REAL})(:log)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_ARRAY = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_MOST_AT_ONCE = re.compile(r"(.*)%([1-9][0-9]{0,8})")

MEMBERS = 10_000
"""Most members of one sweep: more is a typo, or belongs into a loop."""

_EXAMPLE = "write for example 0.1,0.01 or 1..4 or 1e-5..1e-1:log"


def parse_axis(name: str, given: object) -> Axis:
    """Read the values of one parameter: text, or a list of values."""
    if isinstance(given, list):
        return _listed(name, given)
    if not isinstance(given, str):
        raise ValueError(f"must be values or a range; {_EXAMPLE}")
    found = _RANGE.fullmatch(given.strip())
    if found is None:
        return _listed(name, [value.strip() for value in given.split(",")])
    low, high, log = found.groups()
    if float(low) >= float(high):
        raise ValueError(f"{shown(given)} does not rise; {_EXAMPLE}")
    if log and float(low) <= 0:
        raise ValueError(f"{shown(given)}: a logarithm needs a range above 0")
    whole = bool(_WHOLE.fullmatch(low) and _WHOLE.fullmatch(high))
    return Axis(name, (), float(low), float(high), whole, bool(log))


def _listed(name: str, values: Sequence[object]) -> Axis:
    words = tuple(value for value in values if isinstance(value, str) and value)
    if not values or len(words) < len(values):
        raise ValueError(f"has an empty value; {_EXAMPLE}")
    again = repeated(words)
    if again is not None:
        raise ValueError(f"{shown(words[again])} is given twice")
    if any("\0" in word for word in words):
        raise ValueError("contains a null character")
    return Axis(name, words)


def parse_array(text: str) -> tuple[Axis, int]:
    """Read Slurm's way to write an array, `0-15%4` or `1,3,5-9:2`: indices, and how many at once (0:
    any number)."""
    least = _MOST_AT_ONCE.fullmatch(text.strip())
    ranges, at_most = (least[1], int(least[2])) if least else (text.strip(), 0)
    found: list[str] = []
    for part in ranges.split(","):
        match = _ARRAY.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{shown(text)} is not an array; write for example 0-15 or 0-15%4")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step or (last - first) // step >= MEMBERS:
            raise ValueError(f"{shown(part)} is not a range of at most {MEMBERS:,} indices")
        found += map(str, range(first, last + 1, step))
    return _listed(INDEX, found), at_most


def parse_asha(text: str) -> dict[str, str]:
    """Read `metric=loss,min,rung=1,eta=3`, all of which may be left out, as fields of a job file."""
    found: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        field, equals, value = part.partition("=")
        if not equals:
            field, value = ("mode" if part in ("min", "max") else "metric"), part
        if field not in ("metric", "mode", "rung", "eta") or field in found:
            raise ValueError(f"{shown(part)} is no part of it; write for example loss,min,rung=1,eta=3")
        found[field] = value
    return found or {"metric": Asha().metric}
