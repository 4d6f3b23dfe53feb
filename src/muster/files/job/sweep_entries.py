"""The `sweep:` of a job file, as written."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from muster.files.errors import shown
from muster.files.job.axes import MEMBERS, parse_array, parse_axis
from muster.files.source.fields import (
    FileEntry,
    optional,
    scalar,
    short_for,
    whole,
    whole_schema,
    word,
)
from muster.model.placeholders import NAME
from muster.model.sweep import INDEX, Axis

MAX_RUNG, MAX_ETA, MAX_SEED = 1_000_000, 100, 2**53
_TAKEN = ("number", "size")
"""Names of variables that every member has: MUSTER_SWEEP_NUMBER, ..."""
_METRIC = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")


def _axes(value: object) -> tuple[Axis, ...]:
    if not isinstance(value, dict) or not value:
        raise ValueError("must be a mapping of parameters to values, for example {lr: [0.1, 0.01]}")
    names = [str(name) for name in value]
    for name in names:
        if not re.fullmatch(NAME, name) or name.lower() in (*_TAKEN, INDEX):
            raise ValueError(f"{shown(name)} cannot be the name of a parameter; write for example lr")
    if len({name.lower() for name in names}) < len(names):
        raise ValueError("has two parameters of one name")
    return tuple(_axis(name, given) for name, given in value.items())


def _axis(name: str, given: object) -> Axis:
    try:
        return parse_axis(name, given)
    except ValueError as problem:
        raise ValueError(f"{name} {problem}") from None


def _metric(text: str) -> str:
    if not _METRIC.fullmatch(text):
        raise ValueError(f"{shown(text)} is not the name of a metric; write for example loss")
    return text


Axes = Annotated[
    tuple[Axis, ...],
    PlainValidator(_axes),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": f"^{NAME}$"},
            "additionalProperties": {
                "anyOf": [
                    {"type": ["string", "number"]},
                    {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1},
                ]
            },
        }
    ),
]
Array = Annotated[
    tuple[Axis, int],
    scalar(parse_array),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["0-15", "0-15%4"]}),
]
Members = Annotated[int, whole(1, MEMBERS), whole_schema(1, MEMBERS)]
Metric = Annotated[str, scalar(_metric), WithJsonSchema({"type": "string", "minLength": 1})]
Mode = Annotated[str, word("mode", ("min", "max")), WithJsonSchema({"enum": ["min", "max"]})]
FirstRung = Annotated[int, whole(1, MAX_RUNG), whole_schema(1, MAX_RUNG)]
Eta = Annotated[int, whole(2, MAX_ETA), whole_schema(2, MAX_ETA)]
Seed = Annotated[int, whole(0, MAX_SEED), whole_schema(0, MAX_SEED)]


class AshaEntry(FileEntry):
    """Early stopping of members that do worse than others. A bare word is the metric."""

    metric: Metric = Field(
        default="loss", description="What ranks members: the training's loss, or one that is reported."
    )
    mode: Mode = Field(default="min", description="Whether the smallest or the largest is the best.")
    rung: FirstRung = Field(default=1, description="Epochs to the first rung.")
    eta: Eta = Field(
        default=3, description="Of each rung the best 1/eta go on, to eta times as many epochs."
    )


AshaField = Annotated[
    AshaEntry, BeforeValidator(short_for("metric"), json_schema_input_type=Metric | AshaEntry)
]


class SweepEntry(FileEntry):
    """Many jobs of one command, with other values of its parameters. `{lr}` in the command, in `env`
    and in `checkpoint` stands for a member's value."""

    over: Axes | None = optional(
        "Parameters and their values: a list, whole numbers as 1..4, or a range to draw samples from: "
        "1e-5..1e-1:log.",
        examples=[{"lr": [0.1, 0.01], "seed": "1..4"}],
    )
    array: Array | None = optional(
        "Instead: indices as Slurm writes them, for `{index}`; %4: at most 4 at once."
    )
    samples: Members | None = optional("Members to draw at random. Default: every combination.")
    seed: Seed = Field(default=0, description="Of the draws: the same seed draws the same members.")
    at_most: Members | None = optional("Members with tasks at once. Default: as many as get devices.")
    asha: AshaField | None = optional(
        "Stop members that do worse than others (asynchronous successive halving).",
        examples=[{"metric": "loss", "mode": "min", "rung": 1, "eta": 3}],
    )
