"""Values of options: parsed and checked, with the option or the file named in the error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import TypeVar

from muster.files.errors import InputError, one_of
from muster.files.source.quantity import parse_duration

T = TypeVar("T")
_DAYS = {"today": 0, "yesterday": 1}
"""Days that begin so long ago."""


def parsed(option: str, text: str, parse: Callable[[str], T]) -> T:
    """Parse an option's text; InputError, naming the option, if it is not valid."""
    try:
        return parse(text)
    except ValueError as error:
        raise InputError.at(option, str(error)) from None


def parse_time(text: str) -> float:
    """Parse a time in s, 0 or more: `30s`, `1h30m`, `0`."""
    return 0.0 if text == "0" else parse_duration(text)


def seconds_of(option: str, text: str) -> float:
    return parsed(option, text, parse_time)


def moment_of(option: str, text: str, now: float, zone: tzinfo | None = None) -> float:
    """Parse a moment, in s since 1970: `2h` ago, `today` or `yesterday` (since midnight), or a date or
    time; of this zone, by default this machine's."""
    if text in _DAYS:
        today = datetime.fromtimestamp(now, zone)
        midnight = today.replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight - timedelta(days=_DAYS[text])).timestamp()
    with suppress(ValueError):
        return now - parse_time(text)
    try:
        found = datetime.fromisoformat(text)
        return (found.replace(tzinfo=zone) if found.tzinfo is None else found).timestamp()
    except (ValueError, OverflowError):
        problem = f"{text!r} is neither a time ago, such as 2h, nor a date, such as 2026-11-16T09:30"
        raise InputError.at(option, problem) from None


def policy_of(option: str, name: str) -> str:
    """Return the name if it is a policy's, with options or without; InputError otherwise."""
    from muster.policy.registry import POLICIES, PolicyError

    if name.partition(":")[0] not in POLICIES:
        raise InputError.at(option, one_of(name, "policy", POLICIES))
    try:
        return POLICIES.find(name).name
    except PolicyError as error:
        raise InputError.at(option, str(error)) from None


def aim_of(option: str, aim: str) -> str:
    """Return the aim if some policy has it; InputError otherwise."""
    from muster.policy.registry import every_aim

    if aim not in every_aim():
        raise InputError.at(option, one_of(aim, "policy's aim", every_aim()))
    return aim


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write into an InputError that names the path."""
    try:
        yield
    except OSError as error:
        raise InputError.at(str(path), error.strerror or str(error)) from None
