"""How long a field of a message may be, as a part of its type: `Annotated[str, AtMost(64)]`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AtMost:
    """Characters of a text, items of a list, entries of a mapping at all depths together."""

    count: int


UNBOUNDED = AtMost(2**62)
"""Only the line that carries the message is bounded."""
