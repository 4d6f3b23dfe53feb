"""Jobs: submit, list, show, stop, resize, forecast."""

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from muster.api.bodies import PriorityBody, ShapeBody, UntilBody
from muster.api.parts import Parts, Which, Who, answers, reply
from muster.api.problem import FieldProblem, ProblemError
from muster.daemon.service.protocol import Caller, JobQuery
from muster.files.job.job_file import job_of
from muster.files.source.faults import FaultsError
from muster.model.job import Job
from muster.wire.records import Forecast, JobDetail, JobPage, JobRecord

Status = Literal[
    "waiting",
    "starting",
    "running",
    "restarting",
    "resizing",
    "migrating",
    "preempting",
    "stopping",
    "succeeded",
    "failed",
    "cancelled",
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Chosen by the client; submitting again with the same key is idempotent.",
        pattern=r"^[!-~]{1,200}$",
    ),
]
JOB_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Job"}}},
    }
}
"""The body is read by `files/`, which reports every fault at once."""


def job_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.post(
        "/jobs",
        summary="Submit a job",
        status_code=201,
        responses={
            201: {
                "model": JobRecord,
                "description": "The job; for a repeated key the first one.",
                "headers": {
                    "Location": {"description": "URL of the job.", "schema": {"type": "string"}}
                },
            }
        },
        openapi_extra=JOB_BODY,
    )
    async def submit(request: Request, who: Who, key: Key = None) -> Response:
        """The body is a job file as JSON (docs/reference/files.md). The job belongs to the token's
        user; an administrator may name another."""
        record = await service.submit(who, await _sent_job(request, who), key)
        return reply(record, 201, {"Location": f"/v1/jobs/{record.number}"})

    @router.get("/jobs", summary="List jobs", responses=answers(JobPage, "A page."))
    async def jobs(
        who: Who,
        status: Annotated[list[Status] | None, Query(description="Only these statuses.")] = None,
        user: Annotated[str | None, Query(min_length=1, max_length=63)] = None,
        pool: Annotated[str | None, Query(min_length=1, max_length=63)] = None,
        name: Annotated[str | None, Query(min_length=1, max_length=63)] = None,
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
        active = order == "active"
        query = JobQuery(tuple(status or ()), user, pool, name, cursor, limit, active)
        return reply(await service.jobs(who, query))

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

    @router.post(
        "/forecast",
        summary="Forecast a job",
        responses=answers(Forecast, "When and where it would run."),
        openapi_extra=JOB_BODY,
    )
    async def forecast(request: Request, who: Who) -> Response:
        """The body is that of POST /v1/jobs; nothing is submitted."""
        return reply(await service.forecast(who, await _sent_job(request, who)))


async def _sent_job(request: Request, who: Caller) -> Job:
    """Read the job of a request; a problem lists all its faults."""
    try:
        record = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise ProblemError(400, f"the body is not JSON: {error}") from None
    if not isinstance(record, dict):
        wrong = FieldProblem("", "must be a mapping of fields to values")
        raise ProblemError(422, "the job has 1 fault", errors=(wrong,))
    try:
        job = job_of(record)
    except FaultsError as error:
        found = tuple(FieldProblem(fault.field, fault.text) for fault in error.faults)
        count = f"{len(found)} fault{'s' if len(found) > 1 else ''}"
        raise ProblemError(422, f"the job has {count}", errors=found) from None
    return replace(job, user=_owner(record, job, who))


def _owner(record: dict[str, Any], job: Job, who: Caller) -> str:
    """The user whose job it is: only administrators submit for others."""
    if not who.admin and "user" in record and job.user != who.user:
        wrong = FieldProblem("user", "only administrators submit for others; leave it out")
        raise ProblemError(422, "the job has 1 fault", errors=(wrong,))
    if who.admin:
        login: str | None = (record.get("origin") or {}).get("user")
        return job.user if "user" in record else login or who.user
    return who.user
