"""Job numbers for tests that tell jobs apart by name."""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

_LONGEST = 24
"""Bytes of a name."""


def number(name: str) -> int:
    """The number of the job of this name, 0 for none; numbers sort as the names do."""
    assert len(name.encode()) <= _LONGEST
    return int.from_bytes(name.encode().ljust(_LONGEST, b"\0"))


def name_of(number: int) -> str:
    """The name that a number was made from."""
    return number.to_bytes(_LONGEST).rstrip(b"\0").decode()


def by_number(named: Mapping[str, T]) -> dict[int, T]:
    """The same with numbers for names."""
    return {number(name): value for name, value in named.items()}
