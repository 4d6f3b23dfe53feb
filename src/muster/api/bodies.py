"""Bodies of requests, except jobs."""

from base64 import b64decode
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from muster.daemon.service.governing.pool_change import PoolRules
from muster.daemon.service.protocol import Shape
from muster.files.source.quantity import MAX_PRIORITY
from muster.model.pool import Quota
from muster.wire.api.use_records import SubscriptionRecord

MAX_TASKS = 100_000
MAX_DEVICES = 10_000_000
MAX_SECONDS = 366 * 86_400.0
MAX_AMOUNT = 10**12
MAX_HOURS = 1e9

Count = Annotated[int, Field(ge=1, le=MAX_TASKS)]
Devices = Annotated[int, Field(ge=0, le=MAX_DEVICES)]
Amount = Annotated[int, Field(ge=0, le=MAX_AMOUNT)]
Hours = Annotated[float, Field(gt=0, le=MAX_HOURS, allow_inf_nan=False)]
Part = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
_TYPE = r"^(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,62})$"
_POLICY = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}(:[A-Za-z0-9._=,-]{1,100})?$"
_USER = r"^[A-Za-z0-9_][A-Za-z0-9._@+-]{0,62}$"
_ALLOWED = r"^@?[A-Za-z0-9_][A-Za-z0-9._@+-]{0,62}$"
IN_WORDS = {
    _NAME: "is not a name: up to 63 letters, digits and . _ -, a letter or digit first",
    _TYPE: "is neither a device type nor *",
    _POLICY: "is not a policy: a name, or a name with options, such as muster:makespan=0.6",
    _USER: "is not a user's name: up to 63 letters, digits and . _ @ + -, no punctuation mark first",
    _ALLOWED: "is neither a user's name nor @ and a group's",
}
"""What a text that does not match a pattern is told."""
Allowed = Annotated[str, Field(pattern=_ALLOWED)]
Name = Annotated[str, Field(pattern=_NAME)]
PolicyText = Annotated[str, Field(pattern=_POLICY)]
DeviceType = Annotated[str, Field(pattern=_TYPE)]


class RequestBody(BaseModel):
    """Strict: no text for numbers, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ShapeBody(RequestBody):
    """How many tasks a job asks for."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"least": 2, "most": 8}]})

    least: Count = Field(description="Fewest workers.")
    most: Count = Field(description="Most workers.")
    servers: Annotated[int, Field(ge=0, le=MAX_TASKS)] | None = Field(
        default=None, description="Parameter servers; null: unchanged."
    )

    @model_validator(mode="after")
    def _forwards(self) -> "ShapeBody":
        if self.least > self.most:
            raise ValueError(f"least ({self.least}) is above most ({self.most})")
        return self

    def shape(self) -> Shape:
        return Shape(self.least, self.most, self.servers)


class PackBody(RequestBody):
    """A part of a packed folder."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"offset": 0, "data": "H4sIAAAA", "last": False}]}
    )

    offset: Annotated[int, Field(ge=0, le=MAX_AMOUNT)] = Field(description="Byte at which it begins.")
    data: Annotated[str, Field(pattern=r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2,3}={1,2})?$")] = Field(
        description="The bytes, in base64."
    )
    last: bool = Field(default=False, description="Whether it is the last part.")

    @field_validator("data")
    @classmethod
    def _decodable(cls, data: str) -> str:
        b64decode(data, validate=True)
        return data


class PriorityBody(RequestBody):
    """A job's new priority."""

    priority: int = Field(description="Higher is sooner.", examples=[10])


class UntilBody(RequestBody):
    """What ends a job's training."""

    until: str = Field(
        max_length=200,
        description="A bound or convergence of its loss; empty: its own epochs or steps.",
        examples=["converged 0.5%"],
    )


class SweepSizeBody(RequestBody):
    """How many members of a sweep may have tasks at once."""

    at_most: Annotated[int, Field(ge=1, le=MAX_TASKS)] | None = Field(
        default=None, description="Null: as many as get devices.", examples=[4]
    )


class ContinueBody(RequestBody):
    """Members of a sweep that go on from their checkpoints."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"members": ["3"], "arguments": ["--epochs", "50"]}]}
    )

    members: Annotated[list[str], Field(min_length=1, max_length=1000)] = Field(
        description="What they are called within the sweep."
    )
    arguments: Annotated[list[str], Field(max_length=1000)] = Field(
        default_factory=list, description="Added to their commands."
    )


class QuotaBody(RequestBody):
    """A pool's quota of one device type."""

    reservation: Devices = Field(default=0, description="Devices it can always reclaim.")
    share: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = Field(
        default=1.0, description="Weight in sharing idle devices."
    )
    limit: Devices | None = Field(default=None, description="Maximum number of devices; null: none.")
    reservation_part: Part | None = Field(
        default=None, description="The reservation as a part of the devices there are, instead."
    )
    limit_part: Part | None = Field(default=None, description="The same of the limit.")

    def quota(self) -> Quota:
        return Quota(self.reservation, self.share, self.limit, self.reservation_part, self.limit_part)


class PoolBody(RequestBody):
    """A pool; what is not given stays unchanged."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"quotas": {"P100": {"reservation": 8, "limit": 16}}}]}
    )

    parent: Name | None = Field(default=None, description="Parent pool.")
    quotas: dict[DeviceType, QuotaBody] = Field(
        default_factory=dict, description='By device type; "*": every type without its own.'
    )
    shared: bool | None = Field(
        default=None, description="Whether its users may see and stop each other's jobs."
    )
    allow: Annotated[list[Allowed], Field(max_length=1000)] | None = Field(
        default=None,
        description="Users, and Unix groups as @group, who may submit; an empty list: all. "
        "Administrators always may.",
    )
    max_priority: Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] | None = Field(
        default=None, description="Highest priority of a user's job."
    )
    devices_per_user: Devices | None = Field(
        default=None, description="Most devices that one user's jobs may hold."
    )
    lifted: list[Literal["max_priority", "devices_per_user", "policy", "budget", "aim"]] = Field(
        default_factory=list,
        description="Limits that no longer apply, or a policy or an aim of its own.",
    )
    policy: PolicyText | None = Field(
        default=None,
        description="Policy that decides about its jobs. Default: that of the pool above, and at the "
        "top the cluster's.",
    )
    budget: Hours | None = Field(
        default=None, description="Device-hours that its jobs may use in a calendar month (UTC)."
    )
    aim: Name | None = Field(
        default=None,
        description="What that policy aims at: balanced, mean, fair, makespan or per_device. Default: "
        "that of the pool above.",
    )

    def rules(self) -> PoolRules:
        allow = None if self.allow is None else tuple(self.allow)
        limits = (self.max_priority, self.devices_per_user)
        return PoolRules(allow, *limits, tuple(self.lifted), self.policy, self.budget, self.aim)


class LimitBody(RequestBody):
    """What one user may have at once; what is not given stays unchanged."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"jobs": 50}]})

    jobs: Amount | None = Field(default=None, description="Most live jobs.")
    size: Amount | None = Field(
        default=None, description="Most bytes of the commands and environments of live jobs."
    )
    submissions: Amount | None = Field(default=None, description="Most submissions per minute.")
    device_hours: Annotated[float, Field(ge=0, le=MAX_HOURS, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Most device-hours in a calendar month (UTC); 0: no limit.",
    )


class SubscriptionBody(RequestBody):
    """Whom to tell what of which jobs."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"webhook": "https://hooks.example.org/x", "on": ["failed"]}]}
    )

    webhook: Annotated[str, Field(max_length=2000)] = Field(
        default="", description="Where to post notices."
    )
    command: Annotated[str, Field(max_length=2000)] = Field(
        default="", description="What the daemon runs instead. For administrators."
    )
    on: list[Literal["started", "succeeded", "failed", "stopped", "preempted", "waiting"]] = Field(
        default=["succeeded", "failed"], description="What to tell."
    )
    everybody: bool = Field(
        default=False, description="Whether of all users' jobs. For administrators."
    )
    pool: str = Field(default="", max_length=63, description="Only of jobs in this pool.")
    patience: Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)] = Field(
        default=1800.0, description="Seconds after which a job has waited too long."
    )

    def record(self, name: str) -> SubscriptionRecord:
        on = tuple(dict.fromkeys(self.on))
        more = self.everybody, self.pool, self.patience
        return SubscriptionRecord(name, "", on, self.webhook, self.command, *more)


class DrainBody(RequestBody):
    """When a node must be empty."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"within": 1800.0}]})

    within: Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Seconds until it must be empty; null: whenever its jobs have ended.",
    )


class PolicyBody(RequestBody):
    """The policy to use from the next cycle on."""

    name: PolicyText = Field(examples=["muster"])


class InvitationBody(RequestBody):
    """A join token to create."""

    node: Name | None = Field(
        default=None, description="The only node that may join with it.", examples=["gpu1"]
    )
    uses: int = Field(default=1, ge=1, le=10_000, description="How many nodes may join with it.")
    seconds: float = Field(
        default=3600.0, gt=0, le=30 * 86400.0, description="How long it is good for, in s."
    )


class RotationBody(RequestBody):
    """How to replace a secret."""

    at_once: bool = Field(default=False, description="Whether to no longer accept the old one.")


class RedeemBody(RequestBody):
    """A code that logs a browser in."""

    code: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        description="As `POST /v1/session/code` made it."
    )


class TokenBody(RequestBody):
    """A token to create."""

    name: Name = Field(description="Name of the token.", examples=["laptop"])
    user: Annotated[str, Field(pattern=_USER)] | None = Field(
        default=None, description="Its user; null: the one named as the token.", examples=["ada"]
    )
    role: Literal["admin", "user"] = Field(default="user", description="Its rights.")
