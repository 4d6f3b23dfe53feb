"""Moves that make room for waiting jobs."""

from fastapi import APIRouter
from starlette.responses import Response

from muster.api.parts import Parts, Which, Who, answers, reply
from muster.wire.api.whatif_records import DefragRecord


def defrag_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "",
        summary="List moves that would make room",
        responses=answers(list[DefragRecord], "By waiting job, the oldest first."),
    )
    async def defrag(who: Who) -> Response:
        """Which moves of running jobs would make room for which waiting gang, each by itself, and what
        they cost; nothing is moved. Administrators only."""
        return reply(await service.defrag(who))

    @router.post(
        "/{which}",
        summary="Make room for a waiting job",
        responses=answers(DefragRecord, "What is moved."),
    )
    async def make_room(who: Who, which: Which) -> Response:
        """Makes these moves, and keeps the devices for the job. Administrators only."""
        return reply(await service.make_room(who, which))
