"""Events: as a list, or as a stream."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from muster.api.parts import MAX_NUMBER, Parts, Which, Who, reply
from muster.api.streams import END, EVENT_CONTENT, EVENT_STREAM, event
from muster.daemon.service.protocol import Caller, Service
from muster.wire.api.records import ChangeRecord

After = Annotated[
    int | None,
    Query(ge=0, le=MAX_NUMBER, description="Events after this one. (default: the latest)"),
]
Last = Annotated[
    int | None,
    Header(
        alias="Last-Event-ID",
        ge=0,
        le=MAX_NUMBER,
        description="Id of the last event read; resumes after it.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="Most events of a list.")]
Follow = Annotated[bool, Query(description="Stream events as server-sent events.")]
CHANGES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": list[ChangeRecord],
        "description": "A list, oldest first; with `follow`, a stream of events with a ChangeRecord "
        "each, and the event `end` as the last.",
        "content": EVENT_CONTENT,
    }
}


def event_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    async def answer(
        request: Request, who: Caller, which: str | None, since: int | None, limit: int, follow: bool
    ) -> Response:
        if not follow and EVENT_STREAM not in request.headers.get("accept", ""):
            return reply(await service.changes(who, since, which, limit))
        if which is not None:
            await service.job(who, which)  # so that a missing job is a 404
        return parts.stream(request, _changes(service, who, since, which))

    @router.get("/events", summary="List or stream all events", responses=CHANGES)
    async def events(
        request: Request,
        who: Who,
        after: After = None,
        last: Last = None,
        limit: Limit = 500,
        follow: Follow = False,
    ) -> Response:
        """With `follow` or `Accept: text/event-stream` the answer is a stream; a line `: alive` is its
        heartbeat."""
        return await answer(request, who, None, after if last is None else last, limit, follow)

    @router.get("/jobs/{which}/events", summary="List or stream the events of a job", responses=CHANGES)
    async def job_events(
        request: Request,
        who: Who,
        which: Which,
        after: After = None,
        last: Last = None,
        limit: Limit = 500,
        follow: Follow = False,
    ) -> Response:
        """Like /v1/events, for one job; a stream ends with the job."""
        return await answer(request, who, which, after if last is None else last, limit, follow)


async def _changes(
    service: Service, who: Caller, after: int | None, which: str | None
) -> AsyncGenerator[bytes, None]:
    async for changes in service.follow(who, after, which):
        # As one piece: a flood has thousands in a second, and every piece wakes its reader.
        yield b"".join(event(each, each.seq) for each in changes)
    yield END
