"""Jobs: list, show, stop, hold, resize."""

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from muster.api.bodies import PriorityBody, ShapeBody, UntilBody
from muster.api.job_filter import Filtered, refuse_unfiltered
from muster.api.parts import Parts, Which, Who, answers, reply
from muster.daemon.service.protocol import Caller, JobQuery, Service
from muster.wire.api.records import JobDetail, JobPage, JobRecord


async def jobs_asked(service: Service, who: Caller, query: JobQuery) -> Response:
    """Answer with a page of jobs."""
    return reply(await service.jobs(who, query))


def job_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get("/jobs", summary="List jobs", responses=answers(JobPage, "A page."))
    async def jobs(
        who: Who,
        query: Filtered,
        cursor: Annotated[
            str | None, Query(max_length=200, description="`next` of the previous page.")
        ] = None,
        limit: Annotated[int, Query(ge=1, le=1000, description="Most jobs of a page.")] = 100,
        order: Annotated[
            Literal["newest", "active"],
            Query(
                description="All by number; or jobs with tasks, then waiting, then ended ones, and on "
                "the first page the counts of all. Only the first misses no job while they change."
            ),
        ] = "newest",
    ) -> Response:
        """The jobs visible to the caller."""
        query = replace(query, cursor=cursor, limit=limit, active_first=order == "active")
        return await jobs_asked(service, who, query)

    @router.delete(
        "/jobs", summary="Stop jobs", responses=answers(list[JobRecord], "The jobs, newest first.")
    )
    async def stop_all(
        who: Who,
        query: Filtered,
        every: Annotated[
            bool, Query(alias="all", description="Whether no filter is needed: all you may stop.")
        ] = False,
        force: Annotated[bool, Query(description="Kill their tasks at once.")] = False,
    ) -> Response:
        """The live ones among those that the filter matches, together. Idempotent."""
        if not every:
            refuse_unfiltered(query)
        return reply(await service.stop_all(who, query, force))

    @router.get(
        "/jobs/{which}", summary="Show a job", responses=answers(JobDetail, "The job and its tasks.")
    )
    async def job(who: Who, which: Which) -> Response:
        """In detail; of several of your jobs with that name the newest."""
        return reply(await service.job(who, which))

    @router.delete("/jobs/{which}", summary="Stop a job", responses=answers(JobRecord, "The job."))
    async def stop(
        who: Who,
        which: Which,
        force: Annotated[bool, Query(description="Kill its tasks at once.")] = False,
    ) -> Response:
        """It is `stopping` until its tasks have ended, then `cancelled`. Idempotent."""
        return reply(await service.stop(who, which, force))

    @router.post("/jobs/{which}/hold", summary="Hold a job", responses=answers(JobRecord, "The job."))
    async def hold(who: Who, which: Which) -> Response:
        """It is not started until it is released; one that runs is stopped and waits. Idempotent."""
        return reply(await service.hold(who, which))

    @router.post(
        "/jobs/{which}/release", summary="Release a held job", responses=answers(JobRecord, "The job.")
    )
    async def release(who: Who, which: Which) -> Response:
        """It keeps its place in the queue. Idempotent."""
        return reply(await service.release(who, which))

    @router.post(
        "/jobs/{which}/requeue",
        summary="Stop a running job and queue it again",
        responses=answers(JobRecord, "The job."),
    )
    async def requeue(who: Who, which: Which) -> Response:
        """It gets time to write a checkpoint; this counts neither as a loss nor as a failure."""
        return reply(await service.requeue(who, which))

    @router.put(
        "/jobs/{which}/priority",
        summary="Change a job's priority",
        responses=answers(JobRecord, "The job."),
    )
    async def set_priority(who: Who, which: Which, body: PriorityBody) -> Response:
        """It counts from the next cycle on."""
        return reply(await service.set_priority(who, which, body.priority))

    @router.put(
        "/jobs/{which}/until",
        summary="Change when the loss ends a job's training",
        responses=answers(JobRecord, "The job."),
    )
    async def set_until(who: Who, which: Which, body: UntilBody) -> Response:
        """A running training judges its next epoch by it, whatever its script says. Empty: only its
        own epochs or steps end it."""
        return reply(await service.set_until(who, which, body.until))

    @router.post(
        "/jobs/{which}/resize",
        summary="Change how many workers a job asks for",
        responses=answers(JobRecord, "The job."),
    )
    async def resize(who: Who, which: Which, body: ShapeBody) -> Response:
        """What it gets is decided by the next cycle."""
        return reply(await service.resize(who, which, body.shape()))
