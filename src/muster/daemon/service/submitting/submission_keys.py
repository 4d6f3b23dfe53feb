"""Idempotency keys: a submission that is sent twice is made once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster.daemon.service.protocol import ConflictError
from muster.store.batch import SubmissionKey

T = TypeVar("T")


class SubmissionKeys:
    """The keys of submissions in progress, and those in the store."""

    def __init__(self, stored: Callable[[str, str], Awaitable[SubmissionKey | None]]) -> None:
        """`stored`: returns what a user has submitted with a key."""
        self._stored = stored
        self._busy: dict[tuple[str, str], asyncio.Lock] = {}

    async def once(
        self,
        given: SubmissionKey | None,
        submit: Callable[[SubmissionKey | None], Awaitable[T]],
        known_as: Callable[[int], Awaitable[T]],
    ) -> T:
        """Submit, or return what was submitted before with this key."""
        if given is None:
            return await submit(None)
        # Of two concurrent requests with one key the second waits for the first.
        async with self._busy.setdefault((given.user, given.key), asyncio.Lock()):
            try:
                known = await self._stored(given.user, given.key)
                if known is None:
                    return await submit(given)
                if known.digest not in ("", given.digest):
                    raise ConflictError(
                        f"the key {given.key!r} was used for job {known.number}, which is a different "
                        "one; choose a new key for each job"
                    )
                return await known_as(known.number)
            finally:
                self._busy.pop((given.user, given.key), None)
