"""Reports of what strangers do: short and seldom, whatever they send and however often."""

import time
from collections.abc import Callable

SELDOM = 10.0
"""Seconds between two reports."""

LONGEST = 200
"""Characters of one."""


class SeldomNotes:
    """Passes on one report each `SELDOM` s, with the number of those left out since the last."""

    def __init__(
        self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._note, self._clock = note, clock
        self._next = float("-inf")
        self._left_out = 0

    def __call__(self, text: str) -> None:
        now = self._clock()
        if now < self._next:
            self._left_out += 1
            return
        more = f" (and {self._left_out} more since the last report)" if self._left_out else ""
        self._next, self._left_out = now + SELDOM, 0
        self._note(shortened(text) + more)


def shortened(text: str) -> str:
    """Return a text in one printable line of bounded length."""
    line = "".join(each if each.isprintable() else "?" for each in text[:LONGEST])
    return line + ("..." if len(text) > LONGEST else "")
