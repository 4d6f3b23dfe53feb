"""Checks every request's size, token and rate; unexpected errors behind it become a 500."""

import math
from collections.abc import Callable

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.api.limits import Limits, RateLimiter
from muster.api.problem import ProblemError, of_service, problem, problem_response
from muster.api.token_cache import TokenCache
from muster.daemon.service.protocol import Caller, ServiceError

OPEN_PATHS = frozenset({"/healthz", "/v1/status", "/openapi.json"})
"""Paths that need no token."""

CALLER = "muster.caller"
SECRET = "muster.secret"

log = structlog.get_logger("muster.api")


class RequestGate:
    """An ASGI middleware. `anonymous`: the caller if no tokens are required."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: TokenCache,
        limits: Limits,
        clock: Callable[[], float],
        anonymous: Caller | None,
    ) -> None:
        self._app, self._tokens, self._limits = app, tokens, limits
        self._anonymous = anonymous
        self._rates = RateLimiter(limits.rate, limits.burst, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            headers: dict[bytes, bytes] = dict(scope["headers"])
            self._measure(headers)
            await self._admit(scope, headers)
            await self._app(scope, self._counted(receive), sent)
        except ProblemError as error:
            if begun:
                raise
            await problem_response(error.problem, dict(error.headers or {}))(scope, receive, send)
        except Exception:
            log.exception("request failed", path=scope["path"], method=scope["method"])
            if not begun:
                await problem_response(problem(500, "internal error"))(scope, receive, send)

    def _measure(self, headers: dict[bytes, bytes]) -> None:
        """Reject by its headers what is too large or not JSON, before reading it."""
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limits.body:
            raise self._too_large()
        kind = headers.get(b"content-type")
        if kind is not None and length != b"0" and b"json" not in kind.lower():
            shown = kind.decode("latin-1")
            raise ProblemError(415, f"the body is {shown!r}, not JSON")

    async def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        secret = ""
        caller = self._anonymous
        if caller is None and scope["path"] not in OPEN_PATHS:
            secret = _bearer(headers)
            try:
                caller = await self._tokens.caller(secret)
            except ServiceError as error:
                raise of_service(error) from None
            if caller is None:
                raise _unauthorized("the token is not valid")
        wait = self._rates.wait(secret)
        if wait > 0.0:
            detail = f"more than {self._limits.rate:g} requests per second"
            raise ProblemError(429, detail, headers={"Retry-After": str(math.ceil(wait))})
        scope[CALLER], scope[SECRET] = caller, secret

    def _counted(self, receive: Receive) -> Receive:
        """Cut the body off where it becomes too large, whatever length was announced."""
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limits.body:
                raise self._too_large()
            return message

        return counted

    def _too_large(self) -> ProblemError:
        detail = f"the body is larger than {self._limits.body} bytes"
        # The rest of it is on its way: only closing the connection stops it.
        return ProblemError(413, detail, headers={"Connection": "close"})


def _bearer(headers: dict[bytes, bytes]) -> str:
    given = headers.get(b"authorization")
    if given is None:
        raise _unauthorized("a token is required")
    scheme, _, secret = given.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise _unauthorized("the header Authorization is not 'Bearer <token>'")
    return secret.strip()


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError(401, detail, headers={"WWW-Authenticate": "Bearer"})
