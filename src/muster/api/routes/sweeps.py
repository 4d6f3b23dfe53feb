"""Sweeps: submit, list, show, stop, resize, continue."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from muster.api.bodies import ContinueBody, SweepSizeBody
from muster.api.parts import Parts, Which, Who, answers, reply
from muster.api.routes.submissions import JOB_BODY, Key, sent_sweep
from muster.wire.api.records import JobRecord
from muster.wire.api.sweep_records import SweepDetail, SweepRecord


def sweep_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.post(
        "",
        summary="Submit a sweep",
        status_code=201,
        responses=answers(SweepRecord, "The sweep; for a repeated key the first one.", 201),
        openapi_extra=JOB_BODY,
    )
    async def submit(request: Request, who: Who, key: Key = None) -> Response:
        """The body is a job file with `sweep:` as JSON (docs/reference/files.md)."""
        found = await service.submit_sweep(who, await sent_sweep(request, who), key)
        return reply(found, 201, {"Location": f"/v1/sweeps/{found.number}"})

    @router.get("", summary="List sweeps", responses=answers(list[SweepRecord], "The sweeps."))
    async def sweeps(
        who: Who,
        cursor: Annotated[
            str | None, Query(max_length=20, description="Number of the last one of the page before.")
        ] = None,
        limit: Annotated[int, Query(ge=1, le=1000, description="Most sweeps of a page.")] = 100,
    ) -> Response:
        """Those visible to the caller, newest first."""
        return reply(await service.sweeps(who, cursor, limit))

    @router.get(
        "/{which}", summary="Show a sweep", responses=answers(SweepDetail, "The sweep and its members.")
    )
    async def sweep(who: Who, which: Which) -> Response:
        """With all its members, in order."""
        return reply(await service.sweep(who, which))

    @router.delete("/{which}", summary="Stop a sweep", responses=answers(SweepRecord, "The sweep."))
    async def stop(
        who: Who,
        which: Which,
        force: Annotated[bool, Query(description="Kill its members' tasks at once.")] = False,
    ) -> Response:
        """All live members are stopped, and no further one enters the queue. Idempotent."""
        return reply(await service.stop_sweep(who, which, force))

    @router.post(
        "/{which}/resize",
        summary="Change how many members run at once",
        responses=answers(SweepRecord, "The sweep."),
    )
    async def resize(who: Who, which: Which, body: SweepSizeBody) -> Response:
        """Members that run are not stopped: fewer follow them."""
        return reply(await service.resize_sweep(who, which, body.at_most or 0))

    @router.post(
        "/{which}/continue",
        summary="Continue members from their checkpoints",
        responses=answers(list[JobRecord], "The new jobs."),
    )
    async def go_on(who: Who, which: Which, body: ContinueBody) -> Response:
        """Members that are over, with more arguments of their command: new jobs of the same names."""
        return reply(await service.continue_sweep(who, which, body.members, body.arguments))
