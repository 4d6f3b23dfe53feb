"""Files of a job, for a browser: listed and read, one request each."""

from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from muster.api.door.gate import LOGIN, Login
from muster.api.file_stream import MOST_LISTING, FileStream, FileVisit
from muster.api.parts import Parts, Which, Who, answers, reply
from muster.api.problem import ProblemError
from muster.wire.api.file_records import FolderRecord
from muster.wire.visits.browsing import LARGEST
from muster.wire.visits.visits import Visit, VisitKind

FilePath = Annotated[
    str,
    Query(max_length=4096, pattern=r"^[^\x00]*$", description="In the job's folder."),
]
READ: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The bytes of the file, to be saved.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_HARMLESS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Content-Type": "application/octet-stream",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""A job writes what it likes: no browser may take it for a page of the daemon's."""


def file_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "", summary="List a job's files", responses=answers(FolderRecord, "What lies in the folder.")
    )
    async def files(request: Request, who: Who, which: Which, path: FilePath = "") -> Response:
        """A folder of the job, by default the one that it runs in; on the node of its first worker, as
        the job's user, and after its end as long as the files are kept. For its owner and
        administrators, as `muster cp`. What leads out of the job's folders is refused."""
        login: Login = request.scope[LOGIN]
        with parts.streams.place(login.key):
            asked = Visit(VisitKind.LIST, path=path)
            visit = await FileVisit.open(await service.visit(who, which, asked))
            try:
                await visit.head()
                found = b"".join([piece async for piece in visit.pieces(MOST_LISTING)])
            except ConnectionError as error:
                raise ProblemError(503, str(error)) from None
            finally:
                visit.close()
        return reply(msgspec.json.decode(found, type=FolderRecord))

    @router.get("/content", summary="Read a job's file", response_class=Response, responses=READ)
    async def content(request: Request, who: Who, which: Which, path: FilePath) -> Response:
        """One file, up to 256 MiB; `muster cp` has no limit, and copies folders."""
        login: Login = request.scope[LOGIN]
        with parts.streams.place(login.key):
            pass  # refused now if there is no room: later no status can say so
        asked = Visit(VisitKind.READ, path=path)
        visit = await FileVisit.open(await service.visit(who, which, asked))
        try:
            size = min(int((await visit.head()).get("size", 0)), LARGEST)
        except BaseException:
            visit.close()
            raise

        async def valid() -> bool:
            return login.secret is None or await parts.tokens.caller(login.secret) is not None

        name = quote(path.rstrip("/").rpartition("/")[2], safe="")
        headers = {**_HARMLESS, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        return FileStream(visit, size, headers, streams=parts.streams, key=login.key, valid=valid)
