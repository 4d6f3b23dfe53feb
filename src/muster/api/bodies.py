"""What requests bring, other than jobs."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from muster.daemon.service.protocol import Shape
from muster.model.pool import Quota

MAX_TASKS = 100_000
MAX_DEVICES = 10_000_000

Count = Annotated[int, Field(ge=1, le=MAX_TASKS)]
Devices = Annotated[int, Field(ge=0, le=MAX_DEVICES)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]


class _Body(BaseModel):
    """Taken as it is: no text for numbers, nothing unknown."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ShapeBody(_Body):
    """Numbers of tasks to ask for."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"least": 2, "most": 8}]})

    least: Count = Field(description="Workers it would rather not go below.")
    most: Count = Field(description="Workers it can use at all.")
    servers: Annotated[int, Field(ge=0, le=MAX_TASKS)] | None = Field(
        default=None, description="Parameter servers; null: as before."
    )

    @model_validator(mode="after")
    def _forwards(self) -> "ShapeBody":
        if self.least > self.most:
            raise ValueError(f"least is {self.least}, above most, {self.most}")
        return self

    def shape(self) -> Shape:
        """The same, as the service takes it."""
        return Shape(self.least, self.most, self.servers)


class QuotaBody(_Body):
    """A pool's claim on one device type."""

    reservation: Devices = Field(default=0, description="Devices it can always get back.")
    share: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = Field(
        default=1.0, description="Its weight when idle devices are lent."
    )
    limit: Devices | None = Field(default=None, description="Devices it never goes above.")

    def quota(self) -> Quota:
        """The same, as the model has it."""
        return Quota(self.reservation, self.share, self.limit)


class PoolBody(_Body):
    """A pool; what is not given stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"quotas": {"P100": {"reservation": 8, "limit": 16}}}]}
    )

    parent: Name | None = Field(default=None, description="The pool above.")
    quotas: dict[Name, QuotaBody] = Field(default_factory=dict, description="By device type.")
    shared: bool | None = Field(
        default=None, description="Whether its users may see and stop each other's jobs."
    )


class PolicyBody(_Body):
    """The policy to use from the next cycle on."""

    name: Name = Field(examples=["muster"])


class TokenBody(_Body):
    """A token to make."""

    name: Name = Field(description="What the token is called.", examples=["laptop"])
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._@+-]{0,62}$")] = Field(
        description="Whose it is.", examples=["ada"]
    )
    role: Literal["admin", "user"] = Field(default="user", description="What it may do.")
