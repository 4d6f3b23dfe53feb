"""Visits: a way into a job's tasks, over the connection of the request."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from muster.api.door.gate import LOGIN, Login
from muster.api.door.taken import TAKE_OVER, TakenConnection
from muster.api.parts import Parts, Which, Who
from muster.api.problem import FieldProblem, ProblemError
from muster.api.streams import CHECKED, Streams
from muster.wire.visits.splice import ends_of, splice
from muster.wire.visits.visits import UPGRADE, Visit

_PLAIN = r"^[^\x00]*$"
Kind = Annotated[
    Literal["exec", "attach", "forward", "fetch", "store"],
    Query(
        description="Run a command, attach to the terminal, connect to ports, read files, write files."
    ),
]
Word = Annotated[str, Query(max_length=16_384, pattern=_PLAIN)]
Command = Annotated[list[Word], Query(description="Words of the command; none: a shell.")]
FilePath = Annotated[
    str, Query(max_length=4096, pattern=_PLAIN, description="Of the files, in the job's folder.")
]
Port = Annotated[int | None, Query(ge=1, le=65535, description="Port, for the audit log.")]
Rank = Annotated[int | None, Query(ge=0, le=10**6, description="Which worker; none: the first.")]
TaskName = Annotated[
    str | None,
    Query(pattern=r"^(worker|server)-(0|[1-9][0-9]{0,5})$", description="Or which task, by its name."),
]
OPENED: dict[int | str, dict[str, Any]] = {
    101: {"description": "The connection now carries the frames of the visit."},
}


def visit_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "/jobs/{which}/visits",
        summary="Open a way into a job's task",
        status_code=101,
        response_class=Response,
        responses=OPENED,
    )
    async def visit(
        request: Request,
        who: Who,
        which: Which,
        kind: Kind,
        command: Command = [],  # noqa: B006
        path: FilePath = "",
        port: Port = None,
        rank: Rank = None,
        task: TaskName = None,
    ) -> Response:
        """For the job's owner and administrators: run a command beside a task, attach to its terminal,
        connect to its ports, copy its files. Send `Connection: Upgrade` and `Upgrade: muster-visit`;
        frames follow the answer 101 (src/muster/wire/visits/visits.py). `muster exec`, `attach`,
        `forward` and `cp` do so."""
        take = request.scope.get(TAKE_OVER)
        if take is None or request.headers.get("upgrade", "").lower() != UPGRADE:
            wrong = FieldProblem("Upgrade", f"send the headers Connection: Upgrade, Upgrade: {UPGRADE}")
            raise ProblemError(422, "the request is not valid", errors=(wrong,))
        login: Login = request.scope[LOGIN]

        async def valid() -> bool:
            return login.secret is None or await parts.tokens.caller(login.secret) is not None

        with parts.streams.place(login.key):
            pass  # refused now if there is no room: later no status can say so
        asked = Visit(kind, tuple(command), path, port)
        beside = await service.visit(who, which, asked, task, rank)
        return VisitStream(beside, take, parts.streams, login.key, valid)


class VisitStream(Response):
    """Joins the request's connection to the process beside the task, until either ends."""

    def __init__(
        self,
        beside: socket.socket,
        take: Callable[[], TakenConnection],
        streams: Streams,
        key: str,
        valid: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__()
        self._beside, self._take, self._streams = beside, take, streams
        self._key, self._valid = key, valid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._beside, self._streams.place(self._key) as closing:
            connection = self._take()
            work = asyncio.create_task(self._serve(connection))
            ends = {work, asyncio.create_task(closing.wait()), asyncio.create_task(self._revoked())}
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in ends:
                    task.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
                connection.end()

    async def _serve(self, connection: TakenConnection) -> None:
        await splice(connection.begin(UPGRADE), await ends_of(self._beside))

    async def _revoked(self) -> None:
        """Return once the caller's token is no longer valid."""
        while await self._valid():
            await asyncio.sleep(CHECKED)
