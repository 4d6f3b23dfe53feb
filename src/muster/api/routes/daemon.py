"""The daemon itself: how it is, its figures, whether it lives."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response

from muster.api.parts import CHECKED, Parts, answers, reply
from muster.wire.records import StatusRecord

_TEXT = {"text/plain": {"schema": {"type": "string"}}}


def daemon_routes(parts: Parts) -> APIRouter:
    """The routes /v1/status, /metrics and /healthz."""
    router = APIRouter(tags=["daemon"], dependencies=CHECKED)
    service = parts.service

    @router.get(
        "/v1/status", summary="How the daemon is", responses=answers(StatusRecord, "Its state.")
    )
    async def status() -> Response:
        """Needs no token; says nothing of jobs but their numbers."""
        return reply(await service.status())

    @router.get(
        "/metrics",
        summary="Figures for Prometheus",
        response_class=Response,
        responses={200: {"description": "Prometheus' text form.", "content": _TEXT}},
    )
    async def metrics() -> Response:
        """Give Prometheus a token of a user of its own."""
        return Response(service.metrics(), media_type=CONTENT_TYPE_LATEST)

    @router.get(
        "/healthz",
        summary="Whether it lives",
        response_class=PlainTextResponse,
        responses={200: {"description": "It does.", "content": _TEXT}},
    )
    async def healthz() -> Response:
        """Needs no token."""
        return PlainTextResponse("ok\n")

    return router
