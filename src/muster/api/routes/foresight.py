"""Forecasts, and how they came true."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from muster.api.parts import Parts, Which, Who, answers, reply
from muster.wire.api.foresight_records import AccuracyRecord, JobForecastRecord


def foresight_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "/accuracy",
        summary="How forecasts came true",
        responses=answers(AccuracyRecord, "Coverage and error by kind, and reliability."),
    )
    async def accuracy(
        who: Who,
        what: Annotated[
            Literal["start", "finish"], Query(description="Forecasts of this moment.")
        ] = "finish",
        since: Annotated[
            float, Query(ge=0, le=1e12, description="Made later than this, in s since 1970.")
        ] = 0.0,
        pool: Annotated[
            str | None, Query(max_length=200, description="Only of jobs of this pool.")
        ] = None,
    ) -> Response:
        """Each forecast at submission, at the start and after 25, 50 and 75 % of a run is kept, and
        scored when the job starts or ends; jobs that somebody stopped do not count."""
        return reply(await service.accuracy(who, what, since, pool))

    @router.get(
        "/jobs/{which}/forecasts",
        summary="What was forecast of a job",
        responses=answers(list[JobForecastRecord], "Oldest first, with what came of each."),
    )
    async def forecasts(who: Who, which: Which) -> Response:
        """The forecasts that were kept of a job, and what came of each."""
        return reply(await service.forecasts(who, which))
