"""What the API says of sessions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CodeRecord:
    """A code that logs a browser in, once."""

    code: str
    seconds: float
    """How long it is good for."""
