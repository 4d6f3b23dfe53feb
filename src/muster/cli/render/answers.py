"""Records as JSON, for scripts."""

from typing import Any


def as_json(value: Any, *, indent: int = 2) -> str:
    """Render records as JSON; with an indent of 0 on one line. A NaN loss is null."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
