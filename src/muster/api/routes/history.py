"""The past: curves of trainings, and who held which devices when."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from muster.api.parts import Parts, Which, Who, answers, reply
from muster.wire.api.history_records import JobCurves, TimelinePage

Moment = Annotated[float | None, Query(ge=0, le=1e12, description="In s since 1970.")]


def history_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "/jobs/{which}/curves",
        summary="How a training went",
        responses=answers(JobCurves, "Its curves, and what it held."),
    )
    async def curves(
        who: Who,
        which: Which,
        after: Annotated[
            float, Query(ge=0, le=1e12, description="Only points later than this, in s since 1970.")
        ] = 0.0,
    ) -> Response:
        """Losses, samples/s, workers and reported metrics over steps and time, at most some thousand
        points; kept when it is over, thinned after a month. `spans`: when it held which devices, why,
        and how long each change took."""
        return reply(await service.curves(who, which, after))

    @router.get(
        "/timeline",
        summary="Who held which devices when",
        responses=answers(TimelinePage, "A page, by beginning."),
    )
    async def timeline(
        who: Who,
        since: Moment = None,
        until: Moment = None,
        cursor: Annotated[
            str | None, Query(max_length=200, description="`next` of the previous page.")
        ] = None,
        limit: Annotated[int, Query(ge=1, le=1000, description="Most spans of a page.")] = 1000,
    ) -> Response:
        """The spans that overlap a time, by default the last day. Of jobs that the caller may not see
        only that their devices were in use. Give back `since` and `until` with `next`."""
        return reply(await service.timeline(who, since, until, cursor, limit))
