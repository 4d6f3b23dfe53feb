"""Logs of tasks: listed, read in parts, or streamed."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from muster.api.log_stream import LogFollower, offsets_of
from muster.api.parts import MAX_NUMBER, Parts, Which, Who, reply
from muster.api.problem import FieldProblem, ProblemError
from muster.api.streams import EVENT_CONTENT
from muster.wire.api.records import TaskRecord

MAX_PIECE = 1 << 20

Generation = Annotated[int, Path(ge=0, le=2**31, description="Generation in which the task started.")]
Task = Annotated[
    str,
    Path(
        pattern=r"^(worker|server)-(0|[1-9][0-9]{0,5})$",
        description="Role and index.",
        examples=["worker-0"],
    ),
]
Offset = Annotated[
    int, Query(ge=-MAX_NUMBER, le=MAX_NUMBER, description="First byte; negative: from the end.")
]
Size = Annotated[int, Query(ge=1, le=MAX_PIECE, description="Most bytes to read.")]
Last = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        pattern=r"^([0-9]{1,9}/(worker|server)-[0-9]{1,6}=[0-9]{1,18},?)*$",
        max_length=60_000,
        description="Id of the last event read; resumes after it.",
    ),
]
Follow = Annotated[bool, Query(description="Stream as server-sent events.")]
_FOLLOWED = ' With `follow` a stream of {"log", "offset", "next", "text"}, and the event `end`.'
_NUMBER = {"schema": {"type": "integer"}}
LISTED: dict[int | str, dict[str, Any]] = {
    200: {
        "model": list[TaskRecord],
        "description": "The tasks and their logs." + _FOLLOWED,
        "content": EVENT_CONTENT,
    }
}
READ: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The bytes as printed." + _FOLLOWED,
        "content": {"text/plain": {"schema": {"type": "string"}}, **EVENT_CONTENT},
        "headers": {
            "Log-Offset": {"description": "Offset of this part.", **_NUMBER},
            "Log-Next": {"description": "Offset of the next part.", **_NUMBER},
        },
    }
}


def log_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get("", summary="List or stream a job's logs", responses=LISTED)
    async def logs(
        request: Request,
        who: Who,
        which: Which,
        offset: Offset = 0,
        last: Last = None,
        follow: Follow = False,
    ) -> Response:
        """A stream has the logs of all tasks, future ones too, until the job ends."""
        detail = await service.job(who, which)
        if not follow:
            return reply(detail.tasks)
        follower = LogFollower(service, who, which, None, offset, _read(last))
        return parts.stream(request, follower.events())

    @router.get(
        "/{generation}/{task}", summary="Read or stream a log", response_class=Response, responses=READ
    )
    async def log(
        request: Request,
        who: Who,
        which: Which,
        generation: Generation,
        task: Task,
        offset: Offset = 0,
        size: Size = 65536,
        last: Last = None,
        follow: Follow = False,
    ) -> Response:
        """`Log-Next` is the offset of the next part. A log that grows too large loses its beginning;
        offsets stay valid."""
        name = f"{generation}/{task}"
        if follow:
            await service.log(who, which, name, 0, 1)  # so that a missing log is a 404
            follower = LogFollower(service, who, which, name, offset, _read(last))
            return parts.stream(request, follower.events())
        piece = await service.log(who, which, name, offset, size)
        where = {"Log-Offset": str(piece.offset), "Log-Next": str(piece.next)}
        return Response(piece.data, headers=where, media_type="text/plain; charset=utf-8")


def _read(last: str | None) -> dict[str, int]:
    """How far a returning reader has read each log."""
    try:
        return offsets_of(last or "")
    except ValueError:
        wrong = FieldProblem("Last-Event-ID", "is not an id of this stream")
        raise ProblemError(422, "the header is not valid", errors=(wrong,)) from None
