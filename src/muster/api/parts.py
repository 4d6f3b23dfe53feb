"""What the routes share."""

import pwd
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Path, Request
from pydantic import AfterValidator
from starlette.responses import Response

from muster.api.door.gate import CALLER, LOGIN, Login
from muster.api.door.limits import Limits
from muster.api.door.peer import PEER, Peer
from muster.api.door.token_cache import TokenCache
from muster.api.page.sessions import BrowserSessions
from muster.api.problem import FieldProblem, ProblemError
from muster.api.streams import EventStream, Streams
from muster.daemon.service.protocol import Caller, Service
from muster.files.errors import did_you_mean

MAX_NUMBER = 2**63 - 1
"""The largest integer of databases and of most JSON libraries."""


async def caller_of(request: Request) -> Caller:
    """Return the caller, as the gate found it. (A sync function would run in a thread of its own.)"""
    caller: Caller = request.scope[CALLER]
    peer: Peer | None = request.scope.get(PEER)
    return caller if peer is None else Caller(caller.user, caller.admin, _origin(peer))


def _origin(peer: Peer) -> str:
    """Where a request came from, as people say it: an address, or the Unix user at the socket."""
    if peer.uid is None:
        return peer.key
    try:
        return f"unix:{pwd.getpwuid(peer.uid).pw_name}"
    except KeyError:
        return peer.key


async def known_query(request: Request) -> None:
    if not request.scope["query_string"]:
        return
    known = list(_parameters(request.scope["route"].dependant))
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        words = ", ".join(known) or "none"
        found = tuple(
            FieldProblem(name, f"unknown parameter{did_you_mean(name, known) or f'; known: {words}'}")
            for name in unknown
        )
        raise ProblemError(422, "the request is not valid", errors=found)


def _parameters(dependant: Any) -> Iterator[str]:
    """The query parameters of a route and of what it depends on."""
    yield from (field.alias for field in dependant.query_params)
    for each in dependant.dependencies:
        yield from _parameters(each)


CHECKED = [Depends(known_query)]
"""Dependencies of every route."""

Who = Annotated[Caller, Depends(caller_of)]
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
_WHICH = r"^([A-Za-z0-9_][A-Za-z0-9._@+-]{0,62}:)?[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"


def _with_slash(which: str) -> str:
    """`ann/train` for `ann:train`: a path has no other slashes than its own."""
    return which.replace(":", "/")


Which = Annotated[
    str,
    Path(
        description="Number or name of one of your jobs, or user:name.",
        pattern=_WHICH,
        examples=["12", "resnet50", "ada:resnet50"],
    ),
    AfterValidator(_with_slash),
]
Named = Annotated[str, Path(pattern=_NAME, examples=["gpu1"])]


@dataclass(frozen=True, slots=True)
class Parts:
    """The service, and what guards it."""

    service: Service
    limits: Limits
    tokens: TokenCache
    streams: Streams
    sessions: BrowserSessions

    def stream(self, request: Request, events: AsyncGenerator[bytes, None]) -> EventStream:
        """Make a streaming answer, which ends when the caller's token is revoked."""
        login: Login = request.scope[LOGIN]

        async def valid() -> bool:
            return login.secret is None or await self.tokens.caller(login.secret) is not None

        return EventStream(
            events,
            streams=self.streams,
            key=login.key,
            heartbeat=self.limits.heartbeat,
            valid=valid,
        )


def reply(record: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Answer with a record as JSON, without validating it again."""
    return Response(msgspec.json.encode(record), status, headers, "application/json")


def answers(model: Any, text: str, status: int = 200) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": model, "description": text}}
