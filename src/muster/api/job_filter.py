"""Query parameters by which jobs are listed or stopped."""

from typing import Annotated, Literal

from fastapi import Depends, Query

from muster.api.problem import FieldProblem, ProblemError
from muster.daemon.service.protocol import ME, JobQuery
from muster.wire.api.records import LIVE

Status = Literal[
    "waiting",
    "starting",
    "running",
    "restarting",
    "resizing",
    "migrating",
    "preempting",
    "stopping",
    "succeeded",
    "failed",
    "cancelled",
    "skipped",
    "pruned",
]
_MOMENT = 1e12
"""s since 1970: the latest that a filter may name."""

Moment = Annotated[float | None, Query(ge=0, le=_MOMENT, allow_inf_nan=False)]


async def _filtered(
    status: Annotated[list[Status] | None, Query(description="Only these statuses.")] = None,
    user: Annotated[
        str | None,
        Query(min_length=1, max_length=63, description=f"Only this user's; {ME}: the caller's."),
    ] = None,
    pool: Annotated[str | None, Query(min_length=1, max_length=63)] = None,
    name: Annotated[
        str | None,
        Query(min_length=1, max_length=63, description="A name, or a pattern with * and ?."),
    ] = None,
    label: Annotated[
        list[Annotated[str, Query(min_length=1, max_length=300)]] | None,
        Query(max_length=64, description="key=value, or a key that it has; all of them must match."),
    ] = None,
    since: Annotated[Moment, Query(description="Submitted at this time or later.")] = None,
    before: Annotated[Moment, Query(description="Submitted before this time.")] = None,
) -> JobQuery:
    labels = tuple(_label(text) for text in label or ())
    statuses = tuple(status or ())
    return JobQuery(statuses, user, pool, name, labels=labels, since=since, until=before)


def _label(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    return key, value if equals else None


Filtered = Annotated[JobQuery, Depends(_filtered)]


def refuse_unfiltered(query: JobQuery) -> None:
    """Refuse to stop all jobs by an oversight."""
    if query == JobQuery() or set(LIVE) <= set(query.statuses):
        wrong = FieldProblem("all", "give a filter, or all=true for every job that you may stop")
        raise ProblemError(422, "the request is not valid", errors=(wrong,))
