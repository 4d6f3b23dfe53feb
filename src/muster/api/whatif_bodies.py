"""Bodies of requests about changes that are only asked about."""

from typing import Annotated, Any

from pydantic import Field

from muster.api.bodies import Name, PolicyText, PoolBody, RequestBody
from muster.files.source.quantity import MAX_PRIORITY

LATEST = 1e12
MOST = 1_000
"""Nodes of one question."""
Moment = Annotated[float, Field(ge=0, le=LATEST, allow_inf_nan=False)]
Nodes = Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST, strict=False)]
Priority = Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]


class AddedBody(RequestBody):
    """Nodes that join."""

    names: Nodes = Field(description="Their names.", examples=[["gpu17", "gpu18"]])
    like: Name = Field(description="Configuration set, or node, that they are like.", examples=["dgx1"])
    at: Moment | None = Field(default=None, description="When, in s since 1970; null: now.")


class DrainedBody(RequestBody):
    """Nodes that are drained."""

    names: Nodes = Field(description="Their names.", examples=[["gpu3"]])
    at: Moment | None = Field(default=None, description="When, in s since 1970; null: now.")
    by: Moment | None = Field(
        default=None, description="When they must be empty; null: whenever their jobs have ended."
    )


class SubmittedBody(RequestBody):
    """A job that is submitted."""

    job: dict[str, Any] = Field(description="As POST /v1/jobs takes it.")
    at: Moment | None = Field(default=None, description="When, in s since 1970; null: now.")


class WhatIfBody(RequestBody):
    """Changes, made together."""

    policy: PolicyText | None = Field(default=None, examples=["tiresias"])
    pools: dict[Name, PoolBody] = Field(
        default_factory=dict, description="As PUT /v1/pools/NAME takes them.", max_length=100
    )
    add: list[AddedBody] = Field(default_factory=list, max_length=100)
    drain: list[DrainedBody] = Field(default_factory=list, max_length=100)
    submit: list[SubmittedBody] = Field(default_factory=list, max_length=100)
    priorities: dict[str, Priority] = Field(
        default_factory=dict, description="By number or name of a job.", examples=[{"12": 5}]
    )
    worlds: Annotated[int, Field(ge=1, le=256)] = Field(
        default=16, description="Futures played on each side."
    )
    seed: Annotated[int, Field(ge=0, le=2**31)] = Field(
        default=0, description="Of what is drawn: the same seed draws the same worlds."
    )
