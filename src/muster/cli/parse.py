"""Values of options: parsed and checked, with the option or the file named in the error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from muster.files.errors import InputError, one_of
from muster.files.source.quantity import parse_duration

T = TypeVar("T")


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


def policy_of(option: str, name: str) -> str:
    """Return the name if it is a policy's; InputError otherwise."""
    from muster.policy.registry import POLICIES

    if name not in POLICIES:
        raise InputError.at(option, one_of(name, "policy", POLICIES))
    return name


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write into an InputError that names the path."""
    try:
        yield
    except OSError as error:
        raise InputError.at(str(path), error.strerror or str(error)) from None
