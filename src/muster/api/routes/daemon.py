"""The daemon itself: status, snapshot, metrics, health."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response

from muster.api.parts import Parts, Who, answers, reply
from muster.wire.records import StatusRecord

_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_SNAPSHOT = {"application/json": {"schema": {"type": "object"}}}


def daemon_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "/v1/status", summary="Show the daemon's status", responses=answers(StatusRecord, "Its status.")
    )
    async def status() -> Response:
        """Needs no token; tells of jobs only their number."""
        return reply(await service.status())

    @router.get(
        "/v1/snapshot",
        summary="Save what the scheduler decides on",
        response_class=Response,
        responses={200: {"description": "A file for `muster play`.", "content": _SNAPSHOT}},
    )
    async def snapshot(who: Who) -> Response:
        """Cluster, pools, jobs without their commands and environments, what is known of their speed,
        and the scheduler's memory. Administrators only."""
        return Response(await service.snapshot(who), media_type="application/json")

    @router.get(
        "/metrics",
        summary="Metrics for Prometheus",
        response_class=Response,
        responses={200: {"description": "Prometheus' text format.", "content": _TEXT}},
    )
    async def metrics() -> Response:
        """Give Prometheus a token of its own user."""
        return Response(service.metrics(), media_type=CONTENT_TYPE_LATEST)

    @router.get(
        "/healthz",
        summary="Check that it is up",
        response_class=PlainTextResponse,
        responses={200: {"description": "It is.", "content": _TEXT}},
    )
    async def healthz() -> Response:
        """Needs no token."""
        return PlainTextResponse("ok\n")
