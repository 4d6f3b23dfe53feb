"""The real clock as a daemon needs it: it never goes back and never jumps."""

import time


class RealClock:
    """Seconds since 1970 at the start of the daemon, counted on by the monotonic clock."""

    def __init__(self, not_before: float = 0.0) -> None:
        """`not_before`: the latest time in the journal, in case the system clock was set back."""
        self._offset = max(time.time(), not_before) - time.monotonic()

    def now(self) -> float:
        """Return seconds since 1970."""
        return self._offset + time.monotonic()
