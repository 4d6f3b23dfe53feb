"""What happened: as a list, or as it happens."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from muster.api.parts import CHECKED, MAX_NUMBER, Parts, Which, Who, reply
from muster.api.streams import END, EVENT_CONTENT, EVENT_STREAM, event
from muster.daemon.service.protocol import Caller, Service
from muster.wire.records import ChangeRecord

After = Annotated[
    int | None,
    Query(ge=0, le=MAX_NUMBER, description="What came after this number; else the latest."),
]
Last = Annotated[
    int | None,
    Header(
        alias="Last-Event-ID",
        ge=0,
        le=MAX_NUMBER,
        description="The last event that was read: the stream goes on after it.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="Events of a list.")]
Follow = Annotated[
    bool, Query(description="Go on as things happen, as server-sent events, not as a list.")
]
CHANGES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": list[ChangeRecord],
        "description": "A list, oldest first; or, with `follow`, events with a ChangeRecord each. "
        "The event `end` says that nothing follows.",
        "content": EVENT_CONTENT,
    }
}


def event_routes(parts: Parts) -> APIRouter:
    """The routes /v1/events and /v1/jobs/{which}/events."""
    router = APIRouter(prefix="/v1", tags=["events"], dependencies=CHECKED)
    service = parts.service

    @router.get("/events", summary="What happened to anything", responses=CHANGES)
    async def events(
        request: Request,
        who: Who,
        after: After = None,
        last: Last = None,
        limit: Limit = 500,
        follow: Follow = False,
    ) -> Response:
        """With `Accept: text/event-stream` or `follow` the answer lasts; a line `: alive` now and then
        says that it lives."""
        since = after if last is None else last
        if follow or _wants_stream(request):
            return parts.stream(request, _changes(service, who, since, None))
        return reply(await service.changes(who, since, None, limit))

    @router.get("/jobs/{which}/events", summary="What happened to a job", responses=CHANGES)
    async def job_events(
        request: Request,
        who: Who,
        which: Which,
        after: After = None,
        last: Last = None,
        limit: Limit = 500,
        follow: Follow = False,
    ) -> Response:
        """As /v1/events, of one job, to its end."""
        since = after if last is None else last
        if follow or _wants_stream(request):
            await service.job(who, which)  # a job that is not there is told by the status
            return parts.stream(request, _changes(service, who, since, which))
        return reply(await service.changes(who, since, which, limit))

    return router


def _wants_stream(request: Request) -> bool:
    return EVENT_STREAM in request.headers.get("accept", "")


async def _changes(
    service: Service, who: Caller, after: int | None, which: str | None
) -> AsyncGenerator[bytes, None]:
    async for change in service.follow(who, after, which):
        yield event(change, change.seq)
    yield END
