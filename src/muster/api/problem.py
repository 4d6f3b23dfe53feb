"""Errors as RFC 9457 has them: what was wrong, field by field, and what would help."""

from dataclasses import dataclass

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from muster.daemon.service.protocol import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    ServiceError,
    UnavailableError,
)

MEDIA_TYPE = "application/problem+json"

_STATUS = {
    NotFoundError: 404,
    ForbiddenError: 403,
    ConflictError: 409,
    RefusedError: 422,
    UnavailableError: 503,
}
_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
"""As RFC 9110 has them; Python's own list changed with a version."""

_HINTS = {
    401: "send the header 'Authorization: Bearer <token>'; muster token create makes a token",
    403: "ask an administrator, or use a token with the role admin",
    404: "GET /v1/jobs lists the jobs that you may see; /openapi.json all there is to ask",
    405: "the header Allow says what goes here",
    413: "send less; what a job reads belongs into files, not into the request",
    415: "send JSON with 'Content-Type: application/json' (curl --json does)",
    429: "wait as long as the header Retry-After says",
    500: "this is a fault of the daemon; its log says more",
    503: "GET /v1/status says what is wrong; try again when that is put right",
}


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with what was sent, and where."""

    field: str
    problem: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request was not carried out."""

    type: str
    """A name for the kind of problem: "urn:muster:not-found"."""
    title: str
    """The kind in words, always the same."""
    status: int
    """The HTTP status, once more."""
    detail: str
    """What was wrong this time."""
    errors: tuple[FieldProblem, ...] = ()
    """Everything wrong with what was sent, field by field."""
    hint: str | None = None
    """What would help."""


class ProblemError(HTTPException):
    """Ends a request with a problem."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: tuple[FieldProblem, ...] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.problem = problem(status, detail, errors)


def problem(status: int, detail: str, errors: tuple[FieldProblem, ...] = ()) -> Problem:
    """A problem with the title and the hint that go with its status."""
    title = _TITLES.get(status, "Error")
    kind = title.lower().replace(" ", "-")
    return Problem(f"urn:muster:{kind}", title, status, detail, errors, _HINTS.get(status))


def problem_response(found: Problem, headers: dict[str, str] | None = None) -> Response:
    """A problem on its way."""
    return Response(msgspec.json.encode(found), found.status, headers, MEDIA_TYPE)


def of_service(error: ServiceError) -> ProblemError:
    """What the service refused, with its status."""
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 422)
    headers = {"Retry-After": "1"} if status == 503 else None
    return ProblemError(status, str(error), headers=headers)
