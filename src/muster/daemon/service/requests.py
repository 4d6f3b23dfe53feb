"""What all requests share: the daemon, the store, and errors."""

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
"""The setting with the names of shared pools."""


class Requests:
    """Passes requests to the daemon and its store."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon, self._store = daemon, daemon.store
        self._admitted: dict[tuple[object, ...], str] = {}
        """Why requests could never run, by shape and pools."""
        shared = daemon.store.setting(SHARED)
        self._shared = set(shared.split("\n")) if shared else set()

    async def _put(self, entry: Entry) -> None:
        """Hand facts to the daemon; raises its errors as those of the service."""
        self._refuse_trouble()
        try:
            await self._daemon.put(entry)
        except (EventError, LifecycleError) as error:
            raise ConflictError(str(error)) from None
        except UnwritableError as error:
            raise RefusedError(str(error)) from None
        except StoreError as error:
            raise UnavailableError(
                f"nothing was changed: the journal cannot be written ({error})"
            ) from None

    def _refuse_trouble(self) -> None:
        if self._daemon.trouble:
            raise UnavailableError(f"the journal cannot be written: {self._daemon.trouble}")

    async def _read(self, ask: Callable[..., T], *arguments: object) -> T:
        """Call the store off the event loop."""
        try:
            return await asyncio.to_thread(ask, *arguments)
        except StoreError as error:
            raise UnavailableError(str(error)) from None


def admins_only(caller: Caller) -> None:
    if not caller.admin:
        raise ForbiddenError("only administrators may do that; use a token with the role admin")
