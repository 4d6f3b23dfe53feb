"""A job's story."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from muster.api.parts import Parts, Which, Who, answers, reply
from muster.wire.api.story_records import JobStory


def story_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "/jobs/{which}/story",
        summary="A job's story",
        responses=answers(JobStory, "What happened to it, what keeps it now, and what would help."),
    )
    async def story(
        who: Who,
        which: Which,
        advice: Annotated[
            bool, Query(description="Look for what would start or enlarge a live job.")
        ] = True,
        every: Annotated[bool, Query(description="All lines, not a dozen.")] = False,
    ) -> Response:
        """From its submission to its end, also of a job that ended long ago: what it waited for, where
        it started, who resized or preempted it and why, with what that gained and cost. `advice` is
        tried by deciding again with each change, which takes a while where many jobs are live."""
        return reply(await service.story(who, which, advice, every))
