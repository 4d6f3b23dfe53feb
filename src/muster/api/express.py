"""A short way for the requests that come in floods.

FastAPI takes as long to route a submission as the daemon does to accept it, and a third of a list.
Submissions are plain: one body, which `files/` reads, and at most one header. So are most lists, which
pages and `muster ps` ask for again and again. The same functions answer both ways.
"""

import re
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.api.parts import caller_of
from muster.api.problem import of_service
from muster.api.routes.submissions import KEY, KEY_PATTERN
from muster.daemon.service.protocol import Caller, JobQuery, ServiceError
from muster.daemon.tracing import TRACING

SUBMISSIONS = "/v1/jobs"
_KEY = KEY.lower().encode()
_VALID = re.compile(KEY_PATTERN.encode())

Submit = Callable[[Request, Caller, str | None], Awaitable[Response]]
List = Callable[[Caller, JobQuery], Awaitable[Response]]
ORDERS = ("newest", "active")
MOST = 1_000
"""Jobs of a page."""


class Express:
    """An ASGI middleware behind the gate. What it does not know, or would refuse, goes the long way:
    FastAPI says what is wrong, and traces requests where that is asked for."""

    def __init__(self, app: ASGIApp, *, submit: Submit, jobs: List) -> None:
        self._app, self._submit, self._jobs = app, submit, jobs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if TRACING.is_on:
            await self._app(scope, receive, send)
            return
        query = _plain_list(scope)
        if query is not None:
            await self._list(query, scope, receive, send)
            return
        if not _is_submission(scope):
            await self._app(scope, receive, send)
            return
        keys = [value for name, value in scope["headers"] if name == _KEY]
        if len(keys) > 1 or (keys and not _VALID.fullmatch(keys[0])):
            await self._app(scope, receive, send)
            return
        key = keys[0].decode("ascii") if keys else None
        request = Request(scope, receive)
        try:
            answer = await self._submit(request, await caller_of(request), key)
        except ServiceError as error:
            raise of_service(error) from None
        await answer(scope, receive, send)

    async def _list(self, query: JobQuery, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._jobs(await caller_of(Request(scope)), query)
        except ServiceError as error:
            raise of_service(error) from None
        await answer(scope, receive, send)


def _plain_list(scope: Scope) -> JobQuery | None:
    """Return what a request for a list asks for; None: it is none, or has filters, or faults."""
    if scope["type"] != "http" or scope["path"] != SUBMISSIONS or scope["method"] != "GET":
        return None
    fields = [each.partition(b"=") for each in scope["query_string"].split(b"&") if each]
    given = {name: value for name, _, value in fields}
    limit, order = given.pop(b"limit", b"100"), given.pop(b"order", b"newest").decode("latin-1")
    if given or len(fields) > 2 or order not in ORDERS or not (limit.isdigit() and len(limit) < 5):
        return None
    count = int(limit)
    return JobQuery(limit=count, active_first=order == "active") if 1 <= count <= MOST else None


def _is_submission(scope: Scope) -> bool:
    return (
        scope["type"] == "http"
        and scope["path"] == SUBMISSIONS
        and scope["method"] == "POST"
        and not scope["query_string"]
    )
