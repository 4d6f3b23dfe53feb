"""Packed folders that jobs ship."""

from base64 import b64decode
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from muster.api.bodies import PackBody
from muster.api.parts import Parts, Who, answers, reply
from muster.wire.api.records import PackRecord

Digest = Annotated[
    str,
    Path(
        description="SHA-256 of the pack, a tar compressed with gzip.",
        pattern=r"^sha256:[0-9a-f]{64}$",
        examples=["sha256:" + "0" * 64],
    ),
]


def pack_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "/{digest}", summary="How much of a pack is there", responses=answers(PackRecord, "The pack.")
    )
    async def pack(who: Who, digest: Digest) -> Response:
        """Of the caller's own uploads: jobs run only in packs of their submitter."""
        return reply(await service.pack(who, digest))

    @router.put(
        "/{digest}", summary="Upload a part of a pack", responses=answers(PackRecord, "The pack.")
    )
    async def put_pack(who: Who, digest: Digest, body: PackBody) -> Response:
        """Parts come in order; one that is there already is ignored. The last one completes the pack
        if its content has this digest."""
        data = b64decode(body.data)
        return reply(await service.put_pack(who, digest, body.offset, data, body.last))
