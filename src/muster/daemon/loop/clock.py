"""The real clock as a daemon needs it: it never goes back, and does not jump."""

import time


class RealClock:
    """Seconds since 1970 when the daemon began, and from then on by the clock that cannot be set."""

    def __init__(self, not_before: float = 0.0) -> None:
        """`not_before`: the latest moment in the journal; the clock may have been set back since."""
        self._offset = max(time.time(), not_before) - time.monotonic()

    def now(self) -> float:
        """Seconds since 1970, as told at the start."""
        return self._offset + time.monotonic()
