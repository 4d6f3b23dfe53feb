"""The job file as it is written: its mappings, their fields and their defaults."""

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema

from muster.files.command import parse_command
from muster.files.fields import (
    Cores,
    CountsField,
    DevicesField,
    Entry,
    Flag,
    Name,
    Percentage,
    Size,
    SomeTime,
    Time,
    User,
    scalar,
    short_for,
    whole,
    whole_schema,
    word,
)
from muster.files.quantity import MAX_TASKS
from muster.model.topology import Level

MAX_PRIORITY = 1_000_000
"""Far above what anybody needs to keep jobs apart."""

MAX_BATCH = 1_000_000_000
"""More samples than anybody takes in one step."""

LEVELS = {level.word: level for level in Level if level is not Level.DEVICE}

Priority = Annotated[int, whole(-MAX_PRIORITY, MAX_PRIORITY), whole_schema(-MAX_PRIORITY, MAX_PRIORITY)]
Gang = Annotated[int, whole(1, MAX_TASKS), whole_schema(1, MAX_TASKS)]
Batch = Annotated[int, whole(1, MAX_BATCH), whole_schema(1, MAX_BATCH)]
Model = Annotated[
    str, scalar(str), WithJsonSchema({"type": "string", "examples": ["resnet50", "./mine.yaml"]})
]
LevelField = Annotated[str, word("level", LEVELS), WithJsonSchema({"enum": list(LEVELS)})]
Command = Annotated[
    tuple[str, ...],
    PlainValidator(parse_command),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1},
            ]
        }
    ),
]


class RoleEntry(Entry):
    """Tasks of one role, and what each of them takes."""

    count: CountsField = Field(
        default="1", validate_default=True, description="How many tasks, or from least to most."
    )
    gang: Gang | None = Field(
        default=None, description="How many must start together. Default: the least of `count`."
    )
    devices: DevicesField | None = Field(
        default=None,
        description="Devices of one task, on one node. Default: 1 for a worker, 0 for a server.",
    )
    cores: Cores = Field(default=0, description="CPU cores of one task.")
    memory: Size = Field(default="0B", validate_default=True, description="Memory of one task.")


class RolesEntry(Entry):
    """The roles of a job."""

    worker: RoleEntry = Field(description="Tasks that compute gradients.", examples=[{"count": "2..8"}])
    server: RoleEntry | None = Field(
        default=None, description="Parameter servers: tasks that hold and update parameters."
    )


class LocalityEntry(Entry):
    """The locality contract. A bare word is the widest level."""

    widest: LevelField = Field(default="any", description="The widest level the gang may span.")
    max_slowdown: Percentage | None = Field(
        default=None, description="The slowdown it tolerates against the best placement."
    )


class StepEntry(Entry):
    """What one training step does on one worker."""

    compute: SomeTime = Field(description="Time it computes.", examples=["250ms"])
    gradients: Size = Field(description="Gradients it synchronises.", examples=["100MB"])


LocalityField = Annotated[
    LocalityEntry,
    BeforeValidator(short_for("widest"), json_schema_input_type=LevelField | LocalityEntry),
]


class JobEntry(Entry):
    """A training job. Everything but the command is optional."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"command": "python train.py", "devices": "1..8", "locality": "node"},
            ]
        }
    )

    name: Name | None = Field(default=None, description="The job's name. Default: the file's.")
    command: Command = Field(
        description="What to run: one line, split like a shell does, or a list of words.",
        examples=["python train.py"],
    )
    user: User = Field(default="nobody", description="Whose job it is.")
    pool: Name = Field(default="default", description="The pool it is charged to.")
    priority: Priority = Field(default=0, description="Higher is sooner.")
    preemptible: Flag = Field(
        default=True,
        description="Whether it may be stopped and started again; if not, it runs within its "
        "pool's reservation only.",
    )
    devices: DevicesField | None = Field(
        default=None,
        description="Workers with one device each: a count or range, with or without a type. "
        "0 is a job on CPUs. Default: 1.",
    )
    any_of: list[Name] | None = Field(
        default=None,
        description="Device types allowed, the best first. Default: any.",
        examples=[["V100", "P100"]],
    )
    same_generation: Flag = Field(
        default=True, description="Whether all its devices must be of one generation."
    )
    gang: Gang | None = Field(
        default=None, description="How many workers must start together. Default: the least count."
    )
    cores: Cores = Field(default=0, description="CPU cores of one worker.")
    memory: Size = Field(default="0B", validate_default=True, description="Memory of one worker.")
    roles: RolesEntry | None = Field(
        default=None, description="Instead of devices, gang, cores and memory: the tasks of each role."
    )
    locality: LocalityField = Field(
        default_factory=LocalityEntry,
        description="How far apart its devices may be: a level or a mapping.",
    )
    model: Model | None = Field(
        default=None,
        description="The model's profile: the name of a shipped one, or the path of a profile file, "
        "relative to this file.",
    )
    batch: Batch | None = Field(
        default=None,
        description="Samples of one step over all workers. Default: the profile's batch for each "
        "device.",
        examples=[256],
    )
    step: StepEntry | None = Field(default=None, description="What one training step does.")
    duration: SomeTime | None = Field(default=None, description="Expected run time.")
    pause: Time = Field(
        default="30s",
        validate_default=True,
        description="Work lost when it is stopped and started elsewhere.",
    )
