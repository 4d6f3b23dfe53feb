"""What answers before the daemon stands: it is alive, and what its store says.

A daemon loads its scheduler and folds its journal for a second or more. All other requests wait for it
meanwhile, as they would in the socket's queue.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import msgspec
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.api.door.hosts import Hosts
from muster.api.door.limits import Limits, RateLimiter
from muster.api.door.peer import PEER, Peer
from muster.api.problem import ProblemError, problem_response
from muster.store.errors import StoreError
from muster.wire.api.daemon_records import StatusRecord

HEALTH, STATUS = "/healthz", "/v1/status"
"""Paths that need no token, and tell of jobs only their number."""


class Reception:
    """An ASGI application: the daemon's API once there is one."""

    def __init__(
        self,
        status: Callable[[], Awaitable[StatusRecord]],
        limits: Limits,
        hosts: Hosts,
        clock: Callable[[], float],
    ) -> None:
        """`status`: as the store says; StoreError if it cannot."""
        self._status, self._hosts = status, hosts
        self._rates = RateLimiter(limits.open_rate, limits.open_burst, clock)
        self._app: ASGIApp | None = None
        self._open = asyncio.Event()
        self.state = SimpleNamespace(limits=limits, streams=None)

    def open(self, app: Any) -> None:
        """Pass all requests on to the daemon's API from now on."""
        self._app, self.state.streams = app, app.state.streams
        self._open.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None and scope["type"] == "http":
            answer = await self._answer(scope)
            if answer is not None:
                await answer(scope, receive, send)
                return
            await self._open.wait()
        assert self._app is not None
        await self._app(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response | None:
        """Return the answer of those two paths; None: the daemon's API answers."""
        peer: Peer | None = scope.get(PEER)
        if scope["path"] not in (HEALTH, STATUS) or scope["method"] != "GET" or scope["query_string"]:
            return None
        try:
            if peer is not None:
                self._hosts.check(peer, dict(scope["headers"]))
                if self._rates.wait(peer.key):
                    return None  # too many: refused once the daemon stands, and slowed down until then
        except ProblemError as error:
            return problem_response(error.problem)
        if scope["path"] == HEALTH:
            return PlainTextResponse("ok\n")
        try:
            return Response(msgspec.json.encode(await self._status()), media_type="application/json")
        except StoreError:
            return None  # the daemon says what is wrong with it
