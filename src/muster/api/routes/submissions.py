"""Submissions: a job, several together, or a forecast of one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from muster.api.parts import Parts, Which, Who, answers, reply
from muster.api.problem import FieldProblem, ProblemError
from muster.daemon.service.protocol import Caller, Service
from muster.files.job.known_jobs import KnownJobs
from muster.files.job.pipeline import pipeline_of
from muster.files.job.sweep_file import sweep_in
from muster.files.source.faults import FaultsError
from muster.model.job import Job
from muster.model.renew import renewer
from muster.model.sweep import Sweep, member_job
from muster.wire.api.records import Forecast, JobRecord

_KNOWN, _renewed = KnownJobs(), renewer(Job)

KEY = "Idempotency-Key"
KEY_PATTERN = r"^[!-~]{1,200}$"
Key = Annotated[
    str | None,
    Header(
        alias=KEY,
        description="Chosen by the client; submitting again with the same key is idempotent.",
        pattern=KEY_PATTERN,
    ),
]
JOB_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Job"}}},
    }
}
"""The body is read by `files/`, which reports every fault at once."""
PIPELINE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["jobs"],
                    "properties": {
                        "name": {"type": "string", "description": "Begins the names of its jobs."},
                        "jobs": {
                            "type": "object",
                            "minProperties": 1,
                            "additionalProperties": {"$ref": "#/components/schemas/Job"},
                            "description": "By name; other fields of this mapping are their defaults.",
                        },
                    },
                    "examples": [
                        {
                            "jobs": {
                                "prep": {"command": "python prep.py"},
                                "train": {"command": "python train.py", "after": "prep"},
                            }
                        }
                    ],
                }
            }
        },
    }
}


def submission_routes(router: APIRouter, parts: Parts) -> None:
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
        return await submit_sent(service, request, who, key)

    @router.post(
        "/pipelines",
        summary="Submit jobs together",
        status_code=201,
        responses=answers(list[JobRecord], "The jobs, parents first.", 201),
        openapi_extra=PIPELINE_BODY,
    )
    async def submit_all(request: Request, who: Who, key: Key = None) -> Response:
        """All of them or none. Jobs name those of the same request that they come after, or others by
        name or number."""
        return reply(await service.submit_all(who, await _sent_jobs(request, who), key), 201)

    @router.get(
        "/jobs/{which}/request",
        summary="Return the job file that would submit a job again",
        responses={200: {"description": "A job file.", "content": {"application/json": {}}}},
    )
    async def job_request(who: Who, which: Which) -> Response:
        """With its environment, secrets included: for its owner and administrators."""
        return reply(await service.request(who, which))

    @router.post(
        "/forecast",
        summary="Forecast a job",
        responses=answers(Forecast, "When and where it would run."),
        openapi_extra=JOB_BODY,
    )
    async def forecast(request: Request, who: Who) -> Response:
        """The body is that of POST /v1/jobs, or of a sweep, whose first member is forecast; nothing is
        submitted."""
        record = await _sent(request)
        if "sweep" not in record:
            return reply(await service.forecast(who, job_in(record, who)))
        sweep = sweep_for(record, who)
        first = replace(member_job(sweep, 0), number=0, after=sweep.template.after)
        return reply(await service.forecast(who, first))


async def submit_sent(service: Service, request: Request, who: Caller, key: str | None) -> Response:
    """Submit the job of a request, and answer with its record."""
    record = await service.submit(who, await _sent_job(request, who), key)
    return reply(record, 201, {"Location": f"/v1/jobs/{record.number}"})


async def _sent_job(request: Request, who: Caller) -> Job:
    """Read the job of a request; a problem lists all its faults."""
    return job_in(await _sent(request), who)


def job_in(record: dict[str, Any], who: Caller) -> Job:
    """Return the job of a mapping, for its owner; a problem lists all its faults."""
    if "sweep" in record:
        wrong = FieldProblem("sweep", "a sweep is submitted with POST /v1/sweeps (muster run)")
        raise ProblemError(422, "the job has 1 fault", errors=(wrong,))
    with _told_faults():
        job = _KNOWN.job_of(record)
    return _renewed(job, user=_owner(record, job, who))


async def sent_sweep(request: Request, who: Caller) -> Sweep:
    """Read the sweep of a request; a problem lists all its faults."""
    return sweep_for(await _sent(request), who)


def sweep_for(record: dict[str, Any], who: Caller) -> Sweep:
    """Return the sweep of a mapping, for its owner."""
    with _told_faults():
        sweep = sweep_in(record)
    owner = _owner(record, sweep.template, who)
    return replace(sweep, template=replace(sweep.template, user=owner))


async def _sent_jobs(request: Request, who: Caller) -> list[Job]:
    """Read the jobs of a request; a problem lists all their faults."""
    with _told_faults():
        found = pipeline_of(await _sent(request))
    return [replace(job, user=_owner(record, job, who)) for job, record in found]


async def _sent(request: Request) -> dict[str, Any]:
    try:
        record = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise ProblemError(400, f"the body is not JSON: {error}") from None
    if not isinstance(record, dict):
        wrong = FieldProblem("", "must be a mapping of fields to values")
        raise ProblemError(422, "the job has 1 fault", errors=(wrong,))
    return record


@contextmanager
def _told_faults() -> Iterator[None]:
    """Turn the faults of a job into a problem."""
    try:
        yield
    except FaultsError as error:
        found = tuple(FieldProblem(fault.field, fault.text) for fault in error.faults)
        count = f"{len(found)} fault{'s' if len(found) > 1 else ''}"
        raise ProblemError(422, f"the job has {count}", errors=found) from None


def _owner(record: dict[str, Any], job: Job, who: Caller) -> str:
    """The user whose job it is: only administrators submit for others."""
    if not who.admin and "user" in record and job.user != who.user:
        wrong = FieldProblem("user", "only administrators submit for others; leave it out")
        raise ProblemError(422, "the job has 1 fault", errors=(wrong,))
    if who.admin:
        login: str | None = (record.get("origin") or {}).get("user")
        return job.user if "user" in record else login or who.user
    return who.user
