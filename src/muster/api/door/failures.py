"""Failed logins: each one more from the same peer is answered later."""

from asyncio import sleep
from collections import OrderedDict
from collections.abc import Callable

import structlog

FREE = 3
"""Failures that are answered at once: a person with an old token."""
FIRST, LONGEST = 0.25, 8.0
"""s by which the next is held up, doubled each time, up to the longest."""
FORGOTTEN = 300.0
"""s without a failure after which a peer starts over."""
MAX_PEERS = 1_000

log = structlog.get_logger("muster.api")


class FailedLogins:
    """How often each peer has failed. A valid token is never held up, even from the same address."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    async def hold(self, peer: str) -> None:
        """Note a failure, and return when it may be answered."""
        wait = self.note(peer)
        if wait > 0.0:
            await sleep(wait)

    def note(self, peer: str) -> float:
        """Note a failure; return s to hold its answer."""
        now = self._clock()
        before, at = self._failures.pop(peer, (0, now))
        count = 1 if now - at > FORGOTTEN else before + 1
        self._failures[peer] = count, now
        if len(self._failures) > MAX_PEERS:
            self._failures.popitem(last=False)
        if count.bit_count() == 1:  # the 1st, 2nd, 4th, ...: a flood must not fill the log
            log.warning("login failed: the token is not valid", peer=peer, failures=count)
        return 0.0 if count <= FREE else min(LONGEST, FIRST * 2.0 ** min(count - FREE - 1, 30))
