"""Keeps an agent that tries for hours from filling its log with one line."""

import re
import time
from collections.abc import Callable

AGAIN = 600.0
"""s after which a line that is still true is logged again."""

_NUMBERS = re.compile(r"\d+")


class ToldOnce:
    """Remembers what was logged, but for its numbers: how often, how long ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}
        """When each line is news again: an agent may try several daemons in turn."""

    def is_news(self, text: str) -> bool:
        """Whether to log a line; then it is not news for a while."""
        known, now = _NUMBERS.sub("", text), self._clock()
        if now < self._until.get(known, 0.0):
            return False
        self._until = {text: at for text, at in self._until.items() if at > now}
        self._until[known] = now + AGAIN
        return True

    def forget(self) -> None:
        """The trouble is over: the next line is news."""
        self._until.clear()
