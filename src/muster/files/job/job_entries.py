"""The job file as written: its mappings, fields and defaults."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)

from muster.ending import parse_ending
from muster.files.errors import one_of
from muster.files.job.command import parse_command
from muster.files.job.environ import parse_text, parse_variables
from muster.files.job.relation_fields import After, Labels
from muster.files.job.sweep_entries import SweepEntry
from muster.files.source.fields import (
    Cores,
    CountsField,
    DevicesField,
    FileEntry,
    Flag,
    Name,
    Percentage,
    Size,
    SomeTime,
    Time,
    User,
    optional,
    preset,
    range_schema,
    scalar,
    short_for,
    single,
    whole,
    whole_schema,
    word,
)
from muster.files.source.quantity import (
    MAX_PRIORITY,
    MAX_TASKS,
    Counts,
    parse_counts,
    parse_duration,
)
from muster.model.happening import Happening
from muster.model.job import AUTO, CONTAINER_ENGINES
from muster.model.topology import Level

MAX_BATCH = 1_000_000_000
"""More samples than anybody takes in one step."""

MAX_BUDGET = 1_000_000
"""Failures or losses: more is as good as unlimited."""

MAX_STEPS = 10**12
"""A step each microsecond for eleven days."""

ELASTIC = ("live", "restart")
SYNCS = ("auto", "ring", "sharded", "dedicated")
OWNERS = ("reduce", "update")
ENGINES = (AUTO, *CONTAINER_ENGINES)

SIGNALS = ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGINT", "SIGQUIT", "SIGALRM", "SIGCONT", "SIGWINCH")
"""Signals for "checkpoint now"; SIGTERM is the stop that follows."""

LEVELS = {level.word: level for level in Level if level is not Level.DEVICE}

Priority = Annotated[int, whole(-MAX_PRIORITY, MAX_PRIORITY), whole_schema(-MAX_PRIORITY, MAX_PRIORITY)]
Gang = Annotated[int, whole(1, MAX_TASKS), whole_schema(1, MAX_TASKS)]
Budget = Annotated[int, whole(0, MAX_BUDGET), whole_schema(0, MAX_BUDGET)]
Steps = Annotated[int, whole(1, MAX_STEPS), whole_schema(1, MAX_STEPS)]


def _batch(text: str) -> Counts:
    """Read a batch, or the range that it may grow in: `256`, `128..2048`."""
    return parse_counts(text, 1, MAX_BATCH)


Batch = Annotated[
    Counts, scalar(_batch), range_schema(r"^[0-9]+( *\.\. *[0-9]+)?$", 256, "128..2048", most=MAX_BATCH)
]


def _model(value: object) -> str | dict[str, Any]:
    """Read a name, a path, or the profile itself."""
    return value if isinstance(value, dict) else single(value)


Model = Annotated[
    str | dict[str, Any],
    PlainValidator(_model),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "object"}],
            "examples": ["resnet50", "./mine.yaml"],
        }
    ),
]
LevelField = Annotated[str, word("level", LEVELS), WithJsonSchema({"enum": list(LEVELS)})]
Text = Annotated[str, scalar(parse_text), WithJsonSchema({"type": "string", "minLength": 1})]
Elastic = Annotated[str, word("way to resize", ELASTIC), WithJsonSchema({"enum": list(ELASTIC)})]
Signal = Annotated[
    str, word("signal for a checkpoint", SIGNALS), WithJsonSchema({"enum": list(SIGNALS)})
]


def _until(text: str) -> str:
    return str(parse_ending(text))


HappeningField = Annotated[
    str,
    word("happening", list(Happening)),
    WithJsonSchema({"enum": [each.value for each in Happening]}),
]
Until = Annotated[str, scalar(_until), WithJsonSchema({"type": "string", "minLength": 1})]


@dataclass(frozen=True, slots=True)
class LimitWarning:
    """When tasks are warned before their time limit, in s, and by which signal."""

    seconds: float
    signal: str | None


def parse_warning(text: str) -> LimitWarning:
    """Read `SIGUSR1@60s` or `60s`."""
    name, at, seconds = text.rpartition("@")
    if at and name not in SIGNALS:
        raise ValueError(one_of(name, "signal", SIGNALS))
    return LimitWarning(parse_duration(seconds), name or None)


Warn = Annotated[
    LimitWarning,
    scalar(parse_warning),
    WithJsonSchema({"type": "string", "examples": ["SIGUSR1@60s"]}),
]
Sync = Annotated[str, word("way to synchronise", SYNCS), WithJsonSchema({"enum": list(SYNCS)})]
Engine = Annotated[str, word("container engine", ENGINES), WithJsonSchema({"enum": list(ENGINES)})]
Owners = Annotated[str, word("part of an owner", OWNERS), WithJsonSchema({"enum": list(OWNERS)})]
Variables = Annotated[
    dict[str, str | None],
    PlainValidator(parse_variables),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        }
    ),
]


def _command(value: object, info: ValidationInfo) -> tuple[str, ...]:
    """Read words, or a script: `shell` is declared before `command`, and is known here."""
    return parse_command(value, shell=bool(info.data.get("shell")))


Command = Annotated[
    tuple[str, ...],
    PlainValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1},
            ]
        }
    ),
]


class RoleEntry(FileEntry):
    """Tasks of one role, and what each of them takes."""

    count: CountsField = preset("1", "Number of tasks, or a range.")
    gang: Gang | None = optional("Tasks that must start together. Default: the least of `count`.")
    devices: DevicesField | None = optional(
        "Devices of one task, on one node. Default: 1 for a worker, 0 for a server."
    )
    cores: Cores = Field(default=0, description="CPU cores of one task.")
    memory: Size = preset("0B", "Memory of one task.")


class RolesEntry(FileEntry):
    """The roles of a job."""

    worker: RoleEntry = Field(description="Tasks that compute gradients.", examples=[{"count": "2..8"}])
    server: RoleEntry | None = optional(
        "Parameter servers: tasks that hold and update parameters. With a count from 0, such as 0..4, "
        "the planner decides how many there are."
    )


class LocalityEntry(FileEntry):
    """The locality contract. A bare word is the widest level."""

    widest: LevelField = Field(default="any", description="The widest level the gang may span.")
    max_slowdown: Percentage | None = optional("Tolerated slowdown against the best placement.")


class StepEntry(FileEntry):
    """What one training step does on one worker."""

    compute: SomeTime = Field(description="Computing time.", examples=["250ms"])
    gradients: Size = Field(description="Gradients to synchronise.", examples=["100MB"])


class OriginEntry(FileEntry):
    """Where a job was submitted."""

    env: Variables = Field(
        default_factory=dict,
        description="Variables of the submitter's shell; the job's own `env` overrides them.",
    )
    executable: Text | None = optional("The file that the command's first word named.")
    host: Text | None = optional("The machine.")
    user: User | None = optional(
        "The submitter's login name: the owner of an administrator's job without `user`."
    )


LocalityField = Annotated[
    LocalityEntry,
    BeforeValidator(short_for("widest"), json_schema_input_type=LevelField | LocalityEntry),
]


class ContainerEntry(FileEntry):
    """A container, without a daemon of its own. A bare word is the image."""

    image: Text = Field(
        description="A folder with a root file system, a .sif or .sqsh file, or a name as the engine "
        "takes it; a path is absolute, or begins with . and is relative to the job file.",
        examples=["docker://pytorch/pytorch", "/images/torch.sif", "./root"],
    )
    engine: Engine = Field(
        default="auto", description="What runs it; auto: what the node has and can run the image."
    )


ContainerField = Annotated[
    ContainerEntry,
    BeforeValidator(short_for("image"), json_schema_input_type=Text | ContainerEntry),
]


class JobEntry(FileEntry):
    """A training job. Everything but the command is optional."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"command": "python train.py", "devices": "1..8", "locality": "node"},
            ]
        }
    )

    name: Name | None = optional("The job's name. Default: the file's.")
    shell: Flag = Field(default=False, description="Run the command with `sh -c`.")
    command: Command = Field(
        description="Command to run: one line, split like a shell does, or a list of words.",
        examples=["python train.py"],
    )
    folder: Text | None = optional(
        "Working directory of its tasks: absolute, or relative to the job file. It must exist. "
        "Default: where the job is submitted; over the API, a folder of the job's own.",
        examples=["/home/ada/train"],
    )
    env: Variables = Field(
        default_factory=dict,
        description="Environment variables of its tasks; null: to be given at submission.",
        examples=[{"OMP_NUM_THREADS": "4", "TOKEN": None}],
    )
    user: User = Field(default="nobody", description="Owner of the job.")
    pool: Name = Field(default="default", description="Pool to submit to.")
    priority: Priority = Field(default=0, description="Higher is sooner.")
    preemptible: Flag = Field(
        default=True,
        description="Whether it may be stopped and restarted; if not, it runs only within its "
        "pool's reservation.",
    )
    devices: DevicesField | None = optional(
        "Workers with one device each: a count or range, optionally with a type. "
        "0: a CPU job. Default: 1."
    )
    any_of: list[Name] | None = optional(
        "Allowed device types, the best first. Default: any.", examples=[["V100", "P100"]]
    )
    same_generation: Flag | None = optional(
        "Whether all its devices must be of one generation. Default: it starts so, and a training "
        "that is resized live may be lent idle devices of other types.",
    )
    gang: Gang | None = optional("Workers that must start together. Default: the least count.")
    cores: Cores = Field(default=0, description="CPU cores of one worker.")
    memory: Size = preset("0B", "Memory of one worker.")
    roles: RolesEntry | None = optional(
        "The tasks of each role, instead of devices, gang, cores and memory."
    )
    locality: LocalityField = Field(
        default_factory=LocalityEntry,
        description="How far apart its devices may be: a level or a mapping.",
    )
    model: Model | None = optional(
        "Profile of the model: a shipped name, or the path of a profile file relative to this file."
    )
    batch: Batch | None = optional(
        "Samples of one step over all workers; a range lets a training grow from its own batch. "
        "Default: the profile's batch for each device, or what the script says.",
        examples=[256, "128..2048"],
    )
    step: StepEntry | None = optional("What one training step does.")
    duration: SomeTime | None = optional("Expected run time.")
    work: Steps | None = optional("Total training steps, if known.", examples=[10000])
    application: Name | None = optional(
        "What it trains: jobs of one application are expected to be similar."
    )
    elastic: Elastic = Field(default="live", description="How it is resized: live, or by a restart.")
    pause: Time | None = optional(
        "Work lost by a resize or restart. Default: 1s, or 30s with elastic: restart."
    )
    sync: Sync = Field(default="auto", description="How the runtime synchronises gradients.")
    owners: Owners = Field(
        default="reduce", description="Whether owners of parameters also update them."
    )
    grace: Time = preset("30s", "Time between SIGTERM and SIGKILL.")
    checkpoint_signal: Signal | None = optional(
        "Signal that requests a checkpoint before tasks are stopped."
    )
    checkpoint_grace: Time = preset(
        "30s", "Time between that signal and SIGTERM, unless the task exits earlier."
    )
    finish_grace: Time = preset(
        "10m", "Time for what a script does after a training of the runtime; the job fails beyond it."
    )
    time: SomeTime | None = optional(
        "Time limit of a run, from its start to its end; waiting does not count, and a preempted job "
        "starts over. Default: none.",
        examples=["4h"],
    )
    warn: Warn = preset(
        "60s",
        "When to warn the tasks before the time limit, and by which signal. Without a "
        "signal: by the checkpoint signal, or by a request for a checkpoint in jobs of the runtime.",
    )
    until: Until | None = optional(
        "When a training of the runtime ends by its loss, if its script has no `until=`: below a "
        "bound, or once epochs lower it by less than a share of the first loss. The script's epochs "
        "are the most.",
        examples=["converged 0.5%", "loss < 0.1", "converged 0.5% for 5 epochs or loss < 0.1"],
    )
    notify: Text | None = optional(
        "Webhook that is told what becomes of the job, as JSON, signed (see `muster notify`).",
        examples=["https://hooks.example.org/team"],
    )
    notify_on: list[HappeningField] | None = optional(
        "What it is told of. Default: succeeded and failed.", examples=[["failed", "waiting"]]
    )
    resume_from: Text | None = optional(
        "Checkpoints to start from while it has none of its own: a job of the same user (number or "
        "name), `last` for the latest of its own name, or a path (with a /).",
        examples=["12", "last", "./checkpoints"],
    )
    checkpoint: Text | None = optional(
        "Where its checkpoints go: a path that all its nodes see, absolute or relative to this file, "
        "or a URL (s3://, gs://, hdfs://). Default: a folder of the job's own.",
        examples=["s3://training/resnet", "/shared/ada/resnet"],
    )
    ship: Text | None = optional(
        "Folder to pack at submission and to run in, on whichever node: absolute, or relative to the "
        "job file. What .gitignore and .musterignore name is left out. In a request: the digest of "
        "an uploaded pack.",
        examples=["."],
    )
    at_most_once: Flag = Field(
        default=False,
        description="Whether a task on a node that is cut off keeps its job from restarting until the "
        "task is known to be dead.",
    )
    resumes: Flag | None = optional(
        "Whether it continues from a checkpoint after a stop. If not, only jobs that outrank it may "
        "preempt it. Default: true with checkpoint_signal or elastic: restart, else false."
    )
    failures: Budget = Field(
        default=0, description="How often tasks may fail by their own fault and be retried."
    )
    losses: Budget | None = optional(
        "How often in a row it may lose tasks to kills from outside or lost nodes; 5 minutes of "
        "running or a checkpoint restart the count. Default: 10."
    )
    origin: OriginEntry = Field(
        default_factory=OriginEntry,
        description="Where it was submitted. `muster run` and the Python client fill it in.",
        examples=[{"env": {"PATH": "/home/ada/venv/bin:/usr/bin", "VIRTUAL_ENV": "/home/ada/venv"}}],
    )
    slurm_env: Flag = Field(
        default=False,
        description="Whether its tasks also get Slurm's variables (SLURM_JOB_ID, SLURM_PROCID, "
        "SLURM_NTASKS, SLURM_JOB_NODELIST and others).",
    )
    after: After = Field(
        default=(),
        description="Jobs that must have ended before it starts, and how: ok (the default), any or "
        "failed. By name or number; with names, the newest at its submission.",
        examples=["prep", ["prep", "12:any"], {"prep": "ok", "other": "any"}],
    )
    labels: Labels = Field(
        default=(),
        description="Keys and values to find it by.",
        examples=[{"team": "vision", "run": "a"}],
    )
    interactive: Time | None = optional(
        "Run the command on a terminal, to which its owner attaches, and end it after this time "
        "without typing, output or computing; 0s: never. Such a job is not preempted (`preemptible`), "
        "and is stopped by SIGHUP, as a terminal does.",
        examples=["30m"],
    )
    container: ContainerField | None = optional(
        "Run its tasks in a container: an image, or a mapping with its engine. Default: on the node "
        "itself.",
        examples=["docker://pytorch/pytorch", {"image": "./root", "engine": "bwrap"}],
    )
    sweep: SweepEntry | None = optional(
        "Submit many jobs of this command at once, with other values of its parameters."
    )
