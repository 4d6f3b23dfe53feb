"""Callers by token, cached briefly so that not every request asks the store."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from muster.daemon.service.protocol import Caller

KEPT = 0.5
"""s: a token that was revoked in the store itself is rejected within a second."""

MAX_KEPT = 1_000


class TokenCache:
    def __init__(
        self, identify: Callable[[str], Awaitable[Caller | None]], clock: Callable[[], float]
    ) -> None:
        self._identify, self._clock = identify, clock
        self._known: OrderedDict[str, tuple[Caller, float]] = OrderedDict()

    async def caller(self, secret: str) -> Caller | None:
        """Return the token's caller. Only valid ones are cached: others must not evict them."""
        known = self._known.get(secret)
        if known is not None and self._clock() < known[1]:
            return known[0]
        self._known.pop(secret, None)
        found = await self._identify(secret)
        if found is not None:
            self._known[secret] = found, self._clock() + KEPT
            if len(self._known) > MAX_KEPT:
                self._known.popitem(last=False)
        return found

    def forget(self) -> None:
        """Clear the cache: a token was revoked."""
        self._known.clear()
