"""Callers by token, cached briefly so that not every request asks the store."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from muster.daemon.service.caller import Caller

KEPT = 0.5
"""s: a token that was revoked in the store itself is rejected within a second."""

MAX_KEPT = 1_000


class TokenCache:
    def __init__(
        self, identify: Callable[[str], Awaitable[Caller | None]], clock: Callable[[], float]
    ) -> None:
        self._identify, self._clock = identify, clock
        self._known: OrderedDict[str, tuple[Caller, float]] = OrderedDict()
        self._asking: dict[str, asyncio.Future[Caller | None]] = {}
        """Questions on their way to the store: requests that come meanwhile wait for their answers."""

    async def caller(self, secret: str) -> Caller | None:
        """Return the token's caller. Only valid ones are cached: others must not evict them."""
        known = self._known.get(secret)
        if known is not None and self._clock() < known[1]:
            return known[0]
        asking = self._asking.get(secret)
        if asking is None:
            self._known.pop(secret, None)
            asking = self._asking[secret] = asyncio.ensure_future(self._asked(secret))
            asking.add_done_callback(lambda done: self._answered(secret, done))
        # Shielded: a request that is given up must not take the answer from the others.
        return await asyncio.shield(asking)

    def forget(self) -> None:
        """Clear the cache: a token was revoked."""
        self._known.clear()
        self._asking.clear()

    async def _asked(self, secret: str) -> Caller | None:
        return await self._identify(secret)

    def _answered(self, secret: str, done: "asyncio.Future[Caller | None]") -> None:
        if self._asking.get(secret) is not done:
            return  # tokens were revoked meanwhile: this answer counts for those who wait, not longer
        del self._asking[secret]
        found = None if done.cancelled() or done.exception() else done.result()
        if found is not None:
            self._known[secret] = found, self._clock() + KEPT
            if len(self._known) > MAX_KEPT:
                self._known.popitem(last=False)
