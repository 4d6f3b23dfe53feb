"""The API as an ASGI application."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from muster import __version__
from muster.api.bodies import IN_WORDS
from muster.api.door.gate import RequestGate
from muster.api.door.hosts import Hosts
from muster.api.door.limits import Limits
from muster.api.door.token_cache import TokenCache
from muster.api.express import Express
from muster.api.lazy_route import LazyRoute
from muster.api.page.api_docs import api_docs_routes, swagger_files
from muster.api.page.files import page_routes
from muster.api.page.sessions import BrowserSessions
from muster.api.parts import CHECKED, Parts
from muster.api.problem import FieldProblem, ProblemError, of_service, problem, problem_response
from muster.api.routes.admin import (
    agent_token_routes,
    audit_routes,
    limit_routes,
    map_routes,
    node_routes,
    policy_routes,
    pool_routes,
    rotation_routes,
    token_routes,
)
from muster.api.routes.daemon import daemon_routes
from muster.api.routes.defrag import defrag_routes
from muster.api.routes.events import event_routes
from muster.api.routes.files import file_routes
from muster.api.routes.foresight import foresight_routes
from muster.api.routes.history import history_routes
from muster.api.routes.jobs import job_routes, jobs_asked
from muster.api.routes.logs import log_routes
from muster.api.routes.notifications import notification_routes, signing_routes
from muster.api.routes.packs import pack_routes
from muster.api.routes.session import session_routes
from muster.api.routes.story import story_routes
from muster.api.routes.submissions import submission_routes, submit_sent
from muster.api.routes.sweeps import sweep_routes
from muster.api.routes.usage import usage_routes
from muster.api.routes.visits import visit_routes
from muster.api.routes.whatif import whatif_routes
from muster.api.streams import Streams
from muster.daemon.service.protocol import Caller, Service, ServiceError

ANYBODY = Caller("nobody", admin=True)
ROUTES = (
    ("/v1", "jobs", submission_routes),
    ("/v1", "jobs", job_routes),
    ("/v1/jobs/{which}/logs", "logs", log_routes),
    ("/v1", "visits", visit_routes),
    ("/v1/jobs/{which}/files", "visits", file_routes),
    ("/v1", "events", event_routes),
    ("/v1", "history", history_routes),
    ("/v1", "forecasts", foresight_routes),
    ("/v1", "history", story_routes),
    ("/v1/packs", "packs", pack_routes),
    ("/v1/sweeps", "sweeps", sweep_routes),
    ("/v1/nodes", "nodes", node_routes),
    ("/v1/map", "nodes", map_routes),
    ("/v1/pools", "pools", pool_routes),
    ("/v1/limits", "limits", limit_routes),
    ("/v1/audit", "audit", audit_routes),
    ("/v1/usage", "usage", usage_routes),
    ("/v1/notifications", "notifications", notification_routes),
    ("/v1/notification-key", "notifications", signing_routes),
    ("/v1/policy", "policy", policy_routes),
    ("/v1/defrag", "what if", defrag_routes),
    ("/v1/what-if", "what if", whatif_routes),
    ("/v1/tokens", "tokens", token_routes),
    ("/v1/agent-tokens", "tokens", agent_token_routes),
    ("/v1/rotate", "tokens", rotation_routes),
    ("/v1/session", "tokens", session_routes),
    ("", "daemon", daemon_routes),
)
"""By prefix and tag."""
LAZY = cast(type[APIRoute], LazyRoute)
"""What a router makes: it only keeps it."""


def create_app(
    service: Service,
    *,
    limits: Limits | None = None,
    hosts: Hosts | None = None,
    auth: bool = True,
    owner: Caller = ANYBODY,
    clock: Callable[[], float] = time.monotonic,
) -> FastAPI:
    """Make the API of a service.

    `owner`: the caller that the daemon's own Unix user is. Without `auth` no token is needed, and
    everyone is the owner.
    """
    limits = limits or Limits()
    tokens = TokenCache(service.identify, clock)
    streams = Streams(limits.streams)
    sessions = BrowserSessions(clock)
    app = FastAPI(
        title="Muster", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.add_middleware(Express, submit=partial(submit_sent, service), jobs=partial(jobs_asked, service))
    app.add_middleware(
        RequestGate,
        tokens=tokens,
        limits=limits,
        hosts=hosts or Hosts(),
        clock=clock,
        auth=auth,
        owner=owner,
        failed=service.failed_login,
        sessions=sessions,
    )
    parts = Parts(service, limits, tokens, streams, sessions)
    for prefix, tag, add_routes in ROUTES:
        router = APIRouter(prefix=prefix, tags=[tag], dependencies=CHECKED, route_class=LAZY)
        add_routes(router, parts)
        # Added directly: `include_router` wraps them in layers that every request walks through.
        app.router.routes.extend(router.routes)
    app.router.routes.extend([*page_routes(), *api_docs_routes(swagger_files())])
    _answer_errors(app)
    app.state.streams, app.state.limits = streams, limits
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    # Imported only now: few ask for it, and every start would wait for it.
    from muster.api.openapi import describe

    return describe(app)


def _answer_errors(app: FastAPI) -> None:
    @app.exception_handler(ServiceError)
    async def refused(_request: Request, error: ServiceError) -> Response:
        found = of_service(error)
        return problem_response(found.problem, dict(found.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        errors = error.errors()
        if any(each["type"] == "json_invalid" for each in errors):
            return problem_response(problem(400, "the body is not JSON"))
        found = tuple(FieldProblem(_field(each["loc"]), _told(each)) for each in errors)
        return problem_response(problem(422, "the request is not valid", found))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if isinstance(error, ProblemError):
            return problem_response(error.problem, headers)
        if error.status_code == 405:
            headers["Allow"] = _allowed(app, request)
            return problem_response(problem(405, f"{request.method} is not allowed here"), headers)
        detail = f"no such path: {request.url.path}" if error.status_code == 404 else str(error.detail)
        return problem_response(problem(error.status_code, detail), headers)


def _told(fault: Mapping[str, Any]) -> str:
    """A fault in words; a pattern is none."""
    words = IN_WORDS.get((fault.get("ctx") or {}).get("pattern", ""))
    return f"{fault['input']!r} {words}" if words else str(fault["msg"])


def _field(loc: tuple[str | int, ...]) -> str:
    """The path of the field, without the part of the request it is in."""
    return ".".join(str(step) for step in (loc[1:] if len(loc) > 1 else loc))


def _allowed(app: FastAPI, request: Request) -> str:
    found: set[str] = set()
    for route in app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(found))
