"""`/docs`: the API to read and to try out, drawn by Swagger UI from `/openapi.json`.

Its files come from the package `swagger-ui-py` on this machine; nothing is loaded from elsewhere, and
no script is inline.
"""

from importlib.util import find_spec
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from muster.api.page.files import HEADERS

DOCS = "/docs"
_FILES = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
}
_START = """SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#docs", deepLinking: true, docExpansion: "none",
  defaultModelsExpandDepth: 0, filter: true, persistAuthorization: false, validatorUrl: null,
});
"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Muster: the API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="docs"></div>
<script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body></html>
"""
_MISSING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Muster: the API</title></head><body>
<h1>The API</h1>
<p><a href="/openapi.json">/openapi.json</a> describes all requests. To read and try them here:</p>
<pre>pip install 'musterd[api-docs]'</pre>
<p>Then start the daemon again.</p>
</body></html>
"""


def swagger_files() -> Path | None:
    """Return the folder of Swagger UI's files; None: they are not installed."""
    found = find_spec("swagger_ui")
    places = found.submodule_search_locations if found is not None else None
    return Path(next(iter(places))) / "static" if places else None


def api_docs_routes(folder: Path | None) -> list[Route]:
    """Return the routes of the page."""

    async def page(request: Request) -> Response:
        text = _MISSING if folder is None else _PAGE
        return Response(text, media_type="text/html; charset=utf-8", headers=HEADERS)

    async def start(request: Request) -> Response:
        return Response(_START, media_type="text/javascript; charset=utf-8", headers=HEADERS)

    async def file(request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        if folder is None:
            return Response(status_code=404, headers=HEADERS)
        kept = {**HEADERS, "Cache-Control": "max-age=3600"}
        return Response((folder / name).read_bytes(), media_type=_FILES[name], headers=kept)

    files = [Route(f"{DOCS}/{name}", file) for name in _FILES]
    return [Route(DOCS, page), Route(f"{DOCS}/start.js", start), *files]


def is_api_docs(path: str) -> bool:
    """Return whether a path is the page's own, which tells nothing of jobs."""
    return path == DOCS or path.startswith(f"{DOCS}/")
