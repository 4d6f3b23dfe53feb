"""Who the caller is, and sessions of browsers."""

from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from muster.api.bodies import RedeemBody
from muster.api.door.gate import LOGIN, Login
from muster.api.page.sessions import CODE_LIFE, LONGEST, Holder, cookie_name
from muster.api.parts import Parts, Who, answers, reply
from muster.api.problem import ProblemError
from muster.daemon.service.protocol import Caller
from muster.wire.api.session_records import CodeRecord

_NO_STORE = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """Who the caller is."""

    user: str
    admin: bool
    login: bool
    """Whether it is a session or a token: without one there is nothing to log out of."""
    key: str | None = None
    """The page's half of the session; only where it was opened."""


def session_routes(router: APIRouter, parts: Parts) -> None:
    def opened(request: Request, who: Caller, holder: Holder) -> Response:
        """Answer with both halves of a new session."""
        cookie, key = parts.sessions.open(holder)
        answer = reply(SessionRecord(who.user, who.admin, True, key), 201, _NO_STORE)
        answer.set_cookie(
            cookie_name(_port(request)),
            cookie,
            max_age=int(LONGEST),
            path="/v1",
            httponly=True,
            samesite="strict",
            secure=request.scope["scheme"] == "https",
        )
        return answer

    @router.get("", summary="Show who you are", responses=answers(SessionRecord, "The caller."))
    async def who_am_i(request: Request, who: Who) -> Response:
        """The user and rights of the token, of the session, or of the Unix user at the socket."""
        login: Login = request.scope[LOGIN]
        return reply(SessionRecord(who.user, who.admin, login.session or login.secret is not None))

    @router.post(
        "",
        summary="Open a session for a browser",
        status_code=201,
        responses=answers(SessionRecord, "The caller, and the key of the session.", 201),
    )
    async def log_in(request: Request, who: Who) -> Response:
        """With a token in `Authorization`. Sets a cookie that scripts cannot read, and answers with a
        key: requests with the cookie and the key in the header `Muster-Session` need no token. It ends
        with the token, 12 hours after its last request, after 7 days, and with the daemon."""
        login: Login = request.scope[LOGIN]
        if login.secret is None:
            return reply(SessionRecord(who.user, who.admin, login.session), 201)
        return opened(request, who, login.secret)

    @router.delete("", summary="End the session of a browser", status_code=204)
    async def log_out(request: Request, who: Who) -> Response:
        """Its cookie and key are refused from now on."""
        parts.sessions.close(dict(request.scope["headers"]))
        answer = Response(status_code=204)
        answer.delete_cookie(cookie_name(_port(request)), path="/v1", httponly=True, samesite="strict")
        return answer

    @router.post(
        "/code",
        summary="Make a code that logs a browser in",
        status_code=201,
        responses=answers(CodeRecord, "The code.", 201),
    )
    async def make_code(request: Request, who: Who) -> Response:
        """Good once, for a minute, for a session of the caller: what `muster open` gives to the
        browser."""
        login: Login = request.scope[LOGIN]
        code = parts.sessions.code(login.secret or who)
        return reply(CodeRecord(code, CODE_LIFE), 201, _NO_STORE)

    @router.post(
        "/redeem",
        summary="Open a session with a code",
        status_code=201,
        responses=answers(SessionRecord, "The caller, and the key of the session.", 201),
    )
    async def redeem(request: Request, body: RedeemBody) -> Response:
        """Like `POST /v1/session`, with a code in place of the token."""
        holder = parts.sessions.redeem(body.code)
        who = holder if isinstance(holder, Caller) else await parts.tokens.caller(holder or "")
        if holder is None or who is None:
            raise ProblemError(
                401, "the link was used, or is older than a minute; make another: muster open"
            )
        return opened(request, who, holder)


def _port(request: Request) -> int:
    return (request.scope.get("server") or ("", None))[1] or 0
