"""The dashboard's files, which `make page` builds into `static/`."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from muster.api.problem import problem, problem_response

BUILT = Path(__file__).parent / "static"
VIEWS = frozenset(
    {"", "accuracy", "admin", "cluster", "jobs", "pools", "sweeps", "timeline", "what-if"}
)
"""First words of the paths that browsers show; `web/src/views/index.ts` has the same."""
ASSETS = "assets"

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every file: no script but the page's own, nothing from elsewhere, and in nobody's frame."""
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOREVER = "public, max-age=31536000, immutable"
"""Assets have a digest of their content in their names."""
_NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Muster</title></head><body>
<h1>Muster runs, without its dashboard</h1>
<p>This is a source install, and the dashboard is built from <code>web/</code>:</p>
<pre>make page</pre>
<p>Then reload this page. The command line works without it: <code>muster --help</code>.</p>
</body></html>
"""


def is_page(path: str) -> bool:
    """Return whether a path is the dashboard's own: its files tell nothing of jobs."""
    first = path.lstrip("/").partition("/")[0]
    return first in VIEWS or path.startswith(f"/{ASSETS}/")


def page_routes(folder: Path = BUILT) -> list[Route]:
    """Return the routes of the dashboard: every view is the same page."""

    async def view(request: Request) -> Response:
        if not (folder / "index.html").is_file():
            return Response(_NOT_BUILT, media_type=_TYPES[".html"], headers=HEADERS)
        return _file(request, folder / "index.html", "no-cache")

    async def asset(request: Request) -> Response:
        # A name has no slash: the route takes one segment.
        path = folder / ASSETS / request.path_params["name"]
        if path.suffix not in _TYPES or not path.is_file():
            return problem_response(problem(404, f"no such path: {request.url.path}"), HEADERS)
        return _file(request, path, _FOREVER)

    paths = [f"/{view_name}" for view_name in sorted(VIEWS)]
    paths += ["/jobs/{which}", "/sweeps/{which}"]
    return [Route(path, view) for path in paths] + [Route(f"/{ASSETS}/{{name}}", asset)]


def _file(request: Request, path: Path, cache: str) -> Response:
    packed = path.with_name(f"{path.name}.gz")
    headers = {**HEADERS, "Cache-Control": cache, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", "") and packed.is_file():
        headers["Content-Encoding"] = "gzip"
        return Response(packed.read_bytes(), media_type=_TYPES[path.suffix], headers=headers)
    return Response(path.read_bytes(), media_type=_TYPES[path.suffix], headers=headers)
