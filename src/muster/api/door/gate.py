"""Checks every request's sender, size, caller and rate; unexpected errors behind it become a 500."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.api.door.failures import FailedLogins
from muster.api.door.hosts import Hosts
from muster.api.door.limits import Limits, RateLimiter
from muster.api.door.peer import PEER, Peer, caller_of_uid
from muster.api.door.token_cache import TokenCache
from muster.api.page.api_docs import is_api_docs
from muster.api.page.files import is_page
from muster.api.page.sessions import BrowserSessions
from muster.api.problem import ProblemError, of_service, problem, problem_response
from muster.daemon.service.protocol import Caller, ServiceError

OPEN_PATHS = frozenset({"/healthz", "/v1/status", "/v1/proof", "/v1/session/redeem", "/openapi.json"})
"""Paths that need no token."""

INVALID = "the token is not valid"
JSON = b"application/json"
CALLER = "muster.caller"
LOGIN = "muster.login"

log = structlog.get_logger("muster.api")


@dataclass(frozen=True, slots=True)
class Login:
    """How a caller was recognised."""

    key: str
    """What limits count by: the token, the Unix user or the address."""
    secret: str | None = None
    """The token, which may be revoked meanwhile."""
    session: bool = False
    """Whether it is the session of a browser."""


class RequestGate:
    """An ASGI middleware. `owner`: the daemon's own user, and without `auth` every caller."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: TokenCache,
        limits: Limits,
        hosts: Hosts,
        clock: Callable[[], float],
        auth: bool,
        owner: Caller,
        failed: Callable[[str, str], Awaitable[None]],
        sessions: BrowserSessions,
    ) -> None:
        self._app, self._tokens, self._limits, self._hosts = app, tokens, limits, hosts
        self._auth, self._owner = auth, owner
        self._rates = RateLimiter(limits.rate, limits.burst, clock)
        self._open_rates = RateLimiter(limits.open_rate, limits.open_burst, clock)
        self._failures = FailedLogins(clock)
        self._sessions = sessions
        self._failed = failed
        """Told of every failed login: the peer, and why."""

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
            peer: Peer | None = scope.get(PEER)
            if peer is not None:
                self._hosts.check(peer, headers)
            self._measure(headers)
            await self._admit(scope, headers, peer)
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
        if int(length) or b"transfer-encoding" in headers:
            kind = headers.get(b"content-type", b"")
            if kind.partition(b";")[0].strip().lower() != JSON:
                shown = kind.decode("latin-1") or "without a type"
                raise ProblemError(415, f"the body is {shown!r}, not {JSON.decode()!r}")

    async def _admit(self, scope: Scope, headers: dict[bytes, bytes], peer: Peer | None) -> None:
        caller, login = await self._login(scope["path"], headers, peer)
        rates = self._rates if caller is not None else self._open_rates
        wait = rates.wait(login.key)
        if wait > 0.0:
            detail = f"more than {rates.rate:g} requests per second"
            raise ProblemError(429, detail, headers={"Retry-After": str(math.ceil(wait))})
        if peer is not None and caller is not None:
            peer.trusted = True
        scope[CALLER], scope[LOGIN] = caller, login

    async def _login(
        self, path: str, headers: dict[bytes, bytes], peer: Peer | None
    ) -> tuple[Caller | None, Login]:
        """Return the caller, None for strangers at an open path. A token counts before the Unix user:
        who sends one means to be its user."""
        key = peer.key if peer is not None else ""
        tokened = self._auth and b"authorization" in headers
        if peer is not None and peer.uid is not None and not tokened:
            return caller_of_uid(peer.uid, self._owner), Login(key)
        if not self._auth:
            return self._owner, Login(key)
        if path in OPEN_PATHS or is_page(path) or is_api_docs(path):
            return None, Login(key)
        # A token sent on purpose counts before the session of the browser that sends it.
        held = None if tokened else self._sessions.holder(headers)
        if isinstance(held, Caller):
            return held, Login(f"session of {held.user}", session=True)
        secret = held or _bearer(headers)
        try:
            caller = await self._tokens.caller(secret)
        except ServiceError as error:
            raise of_service(error) from None
        if caller is None:
            if peer is not None:
                await self._failed(key, INVALID)
                await self._failures.hold(key)
            raise _unauthorized(INVALID)
        return caller, Login(secret, secret, session=held is not None)

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
