"""Records as JSON, for scripts."""

from typing import Any


def as_json(value: Any, *, indent: int = 2) -> str:
    """A record or a list of them; with an indent of 0 on one line. A loss that is NaN is null."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
