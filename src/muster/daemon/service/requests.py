"""What all requests to a daemon have in common: the door, the store, what is told when they fail."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from muster.core.state.evolve import EventError
from muster.core.state.lifecycle import LifecycleError
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    ForbiddenError,
    RefusedError,
    UnavailableError,
)
from muster.store.errors import StoreError, UnwritableError

T = TypeVar("T")
SHARED = "shared pools"
"""The setting that holds the names of pools whose users see and stop each other's jobs."""


class Requests:
    """Asks the daemon and its store for callers."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon, self._store = daemon, daemon.store
        self._admitted: dict[tuple[object, ...], str] = {}
        """Why requests of a shape could never run, by shape and pools."""
        shared = daemon.store.setting(SHARED)
        self._shared = set(shared.split("\n")) if shared else set()

    async def _put(self, entry: Entry) -> None:
        """Through the door; what is in the way is told as a caller can understand it."""
        self._refuse_trouble()
        try:
            await self._daemon.put(entry)
        except (EventError, LifecycleError) as error:
            raise ConflictError(str(error)) from None
        except UnwritableError as error:
            raise RefusedError(str(error)) from None
        except StoreError as error:
            raise UnavailableError(
                f"nothing was done: the journal cannot be written ({error})"
            ) from None

    def _refuse_trouble(self) -> None:
        if self._daemon.trouble:
            raise UnavailableError(f"the journal cannot be written: {self._daemon.trouble}")

    async def _read(self, ask: Callable[..., T], *arguments: object) -> T:
        """Ask the store off the event loop."""
        try:
            return await asyncio.to_thread(ask, *arguments)
        except StoreError as error:
            raise UnavailableError(str(error)) from None


def admins_only(caller: Caller) -> None:
    if not caller.admin:
        raise ForbiddenError("only an administrator may do that; ask for a token with the role admin")
