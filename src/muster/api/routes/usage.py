"""What was used."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from muster.api.parts import Parts, Who, answers, reply
from muster.wire.api.use_records import UsageReport

WEEK = 7 * 86_400.0


def usage_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "", summary="What jobs have held", responses=answers(UsageReport, "Most device-hours first.")
    )
    async def usage(
        who: Who,
        since: Annotated[
            float, Query(ge=0, le=1e12, description="Beginning, in s; from the hour it lies in.")
        ] = 0.0,
        until: Annotated[
            float | None, Query(ge=0, le=1e12, description="End, in s; to the end of its hour.")
        ] = None,
        by: Annotated[
            str,
            Query(
                max_length=300,
                description="Groups: user, pool, application, type, job, label:KEY; several with "
                "commas.",
                examples=["user,type"],
            ),
        ] = "user",
    ) -> Response:
        """Device-hours, and of them idle and lost. Of all users for an administrator, otherwise of
        the caller and in shared pools. What runs is charged up to a minute ago."""
        return reply(await service.usage(who, since, until, tuple(by.split(","))))
