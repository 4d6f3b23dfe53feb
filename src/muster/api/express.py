"""A short way for the requests that come in floods.

FastAPI takes as long to route a submission as the daemon does to accept it. Submissions are plain: one
body, which `files/` reads, and at most one header. The same function answers both ways.
"""

import re
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.api.parts import caller_of
from muster.api.problem import of_service
from muster.api.routes.submissions import KEY, KEY_PATTERN
from muster.daemon.service.protocol import Caller, ServiceError
from muster.daemon.tracing import TRACING

SUBMISSIONS = "/v1/jobs"
_KEY = KEY.lower().encode()
_VALID = re.compile(KEY_PATTERN.encode())

Submit = Callable[[Request, Caller, str | None], Awaitable[Response]]


class Express:
    """An ASGI middleware behind the gate. What it does not know, or would refuse, goes the long way:
    FastAPI says what is wrong, and traces requests where that is asked for."""

    def __init__(self, app: ASGIApp, *, submit: Submit) -> None:
        self._app, self._submit = app, submit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_submission(scope) or TRACING.is_on:
            await self._app(scope, receive, send)
            return
        keys = [value for name, value in scope["headers"] if name == _KEY]
        if len(keys) > 1 or (keys and not _VALID.fullmatch(keys[0])):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            caller = await caller_of(request)
            answer = await self._submit(request, caller, keys[0].decode("ascii") if keys else None)
        except ServiceError as error:
            raise of_service(error) from None
        await answer(scope, receive, send)


def _is_submission(scope: Scope) -> bool:
    return (
        scope["type"] == "http"
        and scope["path"] == SUBMISSIONS
        and scope["method"] == "POST"
        and not scope["query_string"]
    )
