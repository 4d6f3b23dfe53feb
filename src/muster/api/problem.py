"""Errors as problems of RFC 9457: what is wrong, by field, and what to do."""

import math
from dataclasses import dataclass, replace
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from muster.daemon.service.errors import (
    ConflictError,
    FieldRefusedError,
    ForbiddenError,
    LimitedError,
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
    LimitedError: 429,
    UnavailableError: 503,
}
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
"""As in RFC 9110; Python before 3.13 has older ones."""

_FORBIDDEN = "ask an administrator, or use a token with the role admin"
"""Hint of a request that the caller may not make; a foreign page or name needs another remedy."""
_HINTS = {
    401: "send the header 'Authorization: Bearer <token>'; muster token create makes one",
    404: "GET /v1/jobs lists your jobs; /openapi.json describes all paths",
    405: "see the header Allow",
    413: "keep the job's data in files, not in the request",
    415: "send JSON with 'Content-Type: application/json' (curl --json does)",
    429: "wait for the s of the header Retry-After",
    500: "this is a bug in the daemon; see its log",
    503: "GET /v1/status says what is wrong; retry when it is fixed",
}


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One fault of a request, and its field."""

    field: str
    problem: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request failed."""

    type: str
    """The kind of problem: "urn:muster:not-found"."""
    title: str
    """The kind in words."""
    status: int
    """The HTTP status."""
    detail: str
    """What went wrong."""
    errors: tuple[FieldProblem, ...] = ()
    """Every fault of the request, by field."""
    hint: str | None = None
    """What to do."""


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
    """Make a problem, with its status's title and hint."""
    title = _TITLES.get(status) or HTTPStatus(status).phrase
    kind = title.lower().replace(" ", "-")
    return Problem(f"urn:muster:{kind}", title, status, detail, errors, _HINTS.get(status))


def problem_response(found: Problem, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(found), found.status, headers, MEDIA_TYPE)


def of_service(error: ServiceError) -> ProblemError:
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 422)
    headers = {"Retry-After": "1"} if status == 503 else None
    if isinstance(error, LimitedError):
        headers = {"Retry-After": str(math.ceil(error.wait))}
    faults = (FieldProblem(error.field, error.problem),) if isinstance(error, FieldRefusedError) else ()
    made = ProblemError(status, str(error), errors=faults, headers=headers)
    if status == 403:
        made.problem = replace(made.problem, hint=_FORBIDDEN)
    return made
