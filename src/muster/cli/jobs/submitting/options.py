"""The options of `muster run`. Quick to import."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.choices import Output, Resize
from muster.cli.exits import BAD_INPUT, NO_FORECAST
from muster.cli.options import FORMATS, option

REQUEST, SWEEP, SUBMIT = "Request", "Sweep", "Submission"
"""Groups of options in the help."""
_JOB_FILES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What to run, unparsed; None: not given."""

    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A Python script, a program, a job file (docs/reference/files.md), or a batch script "
            "of Slurm's.",
            show_default=False,
        ),
    ] = ""
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Its arguments; put -- before those that begin with -."),
    ] = None
    devices: Annotated[
        str | None,
        option(
            REQUEST,
            "Workers, with a device each: 4, 1..8, V100:1..8; 0 for none. (default: 1)",
            "--devices",
            "-d",
            metavar="N|N..M",
        ),
    ] = None
    cores: Annotated[
        str | None, option(REQUEST, "CPU cores of each worker: 4, 0.5. (default: 0)", metavar="N")
    ] = None
    memory: Annotated[
        str | None, option(REQUEST, "Memory of each worker: 16GB. (default: 0B)", metavar="SIZE")
    ] = None
    servers: Annotated[
        str | None,
        option(REQUEST, "Parameter servers, or a range: 0..4 lets the planner decide.", metavar="N"),
    ] = None
    name: Annotated[
        str | None, option(REQUEST, "Name of the job. (default: the script's)", metavar="NAME")
    ] = None
    pool: Annotated[str | None, option(REQUEST, "Pool to submit to.", metavar="POOL")] = None
    priority: Annotated[int | None, option(REQUEST, "Priority; higher runs sooner.", metavar="N")] = (
        None
    )
    env: Annotated[
        list[str] | None,
        option(
            REQUEST,
            "Environment variable; without a value, or for all that match HF_*, passed on from here. "
            "Repeatable.",
            metavar="NAME[=VALUE]",
        ),
    ] = None
    folder: Annotated[
        Path | None, option(REQUEST, "Working directory. (default: this one)", metavar="DIR")
    ] = None
    ship: Annotated[
        Path | None,
        option(
            REQUEST,
            "Pack this folder now and run in it, on whichever node; .gitignore and .musterignore say "
            "what is left out.",
            metavar="DIR",
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        option(
            REQUEST,
            "Where its checkpoints go: s3://bucket/path, or a path that all nodes see. (default: a "
            "folder of its own)",
            metavar="URL|PATH",
        ),
    ] = None
    elastic: Annotated[
        Resize | None, option(REQUEST, "Resize while training, or by stopping and restarting.")
    ] = None
    fields: Annotated[
        list[str] | None,
        option(
            REQUEST,
            "Any other field of a job file, such as locality=node. Repeatable.",
            "--set",
            metavar="FIELD=VALUE",
        ),
    ] = None

    time: Annotated[str | None, option(REQUEST, "Time limit of a run: 4h, 1h30m.", metavar="TIME")] = (
        None
    )
    batch: Annotated[
        str | None,
        option(
            REQUEST,
            "Global batch of a training; a range such as 128..2048 lets it grow from its own.",
            metavar="N|N..M",
        ),
    ] = None
    resume_from: Annotated[
        str | None,
        option(
            REQUEST,
            "Checkpoints to start from: a job of yours (number or name), `last` for the latest of this "
            "name, or a path with a /.",
            "--resume-from",
            metavar="JOB|PATH",
        ),
    ] = None

    until: Annotated[
        str | None,
        option(
            REQUEST,
            "End a training of the runtime by its loss, if its script does not: `converged 0.5%`, "
            "`loss < 0.1`, or both joined by `or`.",
            metavar="CONDITION",
        ),
    ] = None

    notify: Annotated[
        str | None,
        option(REQUEST, "Webhook to tell what becomes of the job.", metavar="URL"),
    ] = None

    notify_on: Annotated[
        list[str] | None,
        option(
            REQUEST,
            "What to tell it: started, succeeded, failed, stopped, preempted or waiting (for half an "
            "hour); repeatable, or joined by commas. (default: succeeded and failed)",
            "--notify-on",
            metavar="WHAT",
        ),
    ] = None

    slurm_env: Annotated[
        bool,
        option(
            REQUEST,
            "Set Slurm's variables too, such as SLURM_PROCID, for scripts that read them.",
            "--slurm-env",
        ),
    ] = False

    sweep: Annotated[
        list[str] | None,
        option(
            SWEEP,
            "A parameter and its values, for {NAME} in the arguments: lr=0.1,0.01, seed=1..4, or to "
            "draw from lr=1e-5..1e-1:log. Repeatable.",
            "--sweep",
            metavar="NAME=VALUES",
        ),
    ] = None
    samples: Annotated[
        str | None,
        option(SWEEP, "Members to draw at random. (default: every combination)", metavar="N"),
    ] = None
    seed: Annotated[str | None, option(SWEEP, "Seed of these draws. (default: 0)", metavar="N")] = None
    at_most: Annotated[
        str | None,
        option(
            SWEEP,
            "Members that run at once. (default: as many as get devices)",
            "--at-most",
            metavar="N",
        ),
    ] = None
    array: Annotated[
        str | None,
        option(SWEEP, "Indices as Slurm writes them, for {index}: 0-15%4.", metavar="INDICES"),
    ] = None
    asha: Annotated[
        str | None,
        option(
            SWEEP,
            "Stop members that do worse than others at rungs: metric=loss,min,rung=1,eta=3, of which "
            "each part may be left out.",
            metavar="METRIC,...",
        ),
    ] = None
    template: Annotated[
        str | None,
        option(
            REQUEST,
            "A saved job to begin with (muster template ls); words that follow are added to its "
            "command.",
            "--template",
            "-t",
            metavar="NAME",
        ),
    ] = None

    @property
    def names_itself(self) -> bool:
        """Whether the job gets its name from its script or template."""
        return self.name is None and self.job_file is None

    @property
    def job_file(self) -> Path | None:
        """The job file, if that is what is run."""
        path = Path(self.target)
        return path if path.suffix in _JOB_FILES and self.template is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """How to submit a job, and how long to stay with it."""

    follow: Annotated[
        bool,
        option(SUBMIT, "Print its output; Ctrl-C leaves it running.", "--follow", "-f"),
    ] = False
    wait: Annotated[bool, option(SUBMIT, "Return when it has finished.", "--wait")] = False
    dry_run: Annotated[
        bool,
        option(
            SUBMIT,
            "Only print the forecast. Exit code 0: it would start now; 1: it would wait; 255: error.",
            "--dry-run",
        ),
    ] = False
    yes: Annotated[bool, option(SUBMIT, "Do not ask for confirmation.", "--yes", "-y")] = False
    output: Annotated[Output, option(SUBMIT, FORMATS, "--output", "-o")] = "text"

    @property
    def as_json(self) -> bool:
        return self.output == "json"

    @property
    def failure(self) -> int:
        return NO_FORECAST if self.dry_run else BAD_INPUT
