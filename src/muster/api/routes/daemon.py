"""The daemon itself: status, snapshot, metrics, health."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response

from muster.api.parts import Parts, Who, answers, reply
from muster.wire.agents.token_proof import PREFIX
from muster.wire.api.records import StatusRecord

Prefix = Annotated[
    str,
    Query(
        description=f"The first {PREFIX} hex digits of the token's SHA-256 digest.",
        pattern=rf"^[0-9a-f]{{{PREFIX}}}$",
        examples=["9f86d081884c7d65"],
    ),
]
Nonce = Annotated[
    str,
    Query(
        description="Random, of the client's own making.",
        pattern=r"^[0-9a-f]{32,64}$",
        examples=["5c1a0b7e9d4f42a6b8e3c0d1f2a49b76"],
    ),
]


@dataclass(frozen=True, slots=True)
class ProofRecord:
    """A proof that a token is known."""

    proof: str


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
        "/v1/proof",
        summary="Prove that a token is known",
        responses=answers(ProofRecord, "The proof."),
    )
    async def prove(request: Request, token: Prefix, nonce: Nonce) -> Response:
        """HMAC-SHA256 of the text `muster token proof|NONCE|PORT`, keyed with the SHA-256 digest of the
        token whose hex form begins with `token`. A client checks it before it sends the token itself;
        unknown tokens get an answer of the same form. Needs no token."""
        server = request.scope.get("server") or ("", None)
        found = await service.prove(token, nonce, server[1] or 0)
        return reply(ProofRecord(found), headers={"Cache-Control": "no-store"})

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
        return Response(await service.metrics(), media_type=CONTENT_TYPE_LATEST)

    @router.get(
        "/healthz",
        summary="Check that it is up",
        response_class=PlainTextResponse,
        responses={200: {"description": "It is.", "content": _TEXT}},
    )
    async def healthz() -> Response:
        """Needs no token."""
        return PlainTextResponse("ok\n")
