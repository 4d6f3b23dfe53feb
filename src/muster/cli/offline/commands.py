"""Commands that need no daemon, and their help. Imports stay inside them so that help is quick."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.choices import Output, Strategy
from muster.cli.options import OFFLINE

offline = typer.Typer(pretty_exceptions_enable=False)


class Goal(StrEnum):
    """What a plan can be best at: see docs/explanation/planner.md."""

    THROUGHPUT = "throughput"
    PER_DEVICE = "per_device"


class Schema(StrEnum):
    """The files with a published schema."""

    CLUSTER = "cluster"
    JOB = "job"
    PROFILE = "profile"


ClusterPath = Annotated[Path, typer.Argument(help="Cluster file, see docs/reference/files.md.")]


@offline.command(rich_help_panel=OFFLINE)
def play(
    cluster: ClusterPath,
    jobs: Annotated[list[Path], typer.Argument(help="Job files, submitted in this order.")],
    policy: Annotated[str, typer.Option(help="Who gets how much.")] = "fifo",
    strategy: Annotated[Strategy, typer.Option(help="Where jobs go.")] = Strategy.ADAPTIVE,
    every: Annotated[str, typer.Option(help="Time between submissions.")] = "5m",
) -> None:
    """Play jobs on a cluster on a virtual clock, and say why each starts, changes or waits.

    Nothing is run: it is the real scheduling cycle, every decision checked, against the files' figures.

    Example: muster play examples/clusters/lab.yaml examples/jobs/*.yaml --every 10m
    """
    from rich.console import Console

    from muster.cli.offline.play import run_play
    from muster.files.errors import InputError, one_of
    from muster.files.source.quantity import parse_duration
    from muster.policy.registry import POLICIES

    if policy not in POLICIES:
        raise InputError.at("--policy", one_of(policy, "policy", POLICIES))
    try:
        interval = parse_duration(every)
    except ValueError as error:
        raise InputError.at("--every", str(error)) from error
    run_play(
        cluster,
        jobs,
        policy=policy,
        strategy=strategy,
        every=interval,
        console=Console(highlight=False),
    )


@offline.command(rich_help_panel=OFFLINE)
def plan(
    cluster: ClusterPath,
    job: Annotated[
        Path, typer.Argument(help="Job file that names its model, see docs/reference/profiles.md.")
    ],
    devices: Annotated[
        int | None, typer.Option("--devices", "-d", min=1, help="At most so many. Default: the job's.")
    ] = None,
    aim: Annotated[Goal, typer.Option(help="What the plan is to be best at.")] = Goal.THROUGHPUT,
    curve: Annotated[
        bool, typer.Option("--curve", help="Show the speed by number of devices instead.")
    ] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="As text or JSON.")] = Output.TEXT,
) -> None:
    """Lay a job out on a cluster: which tasks, on which nodes, how they synchronise, and how fast.

    Candidate plans are generated and priced by the performance model; the best is shown with the
    runner-up and the reason. Nothing is run. The cluster is taken as empty.

    Example: muster plan examples/clusters/dike-30.yaml examples/plans/resnet50.yaml -d 32
    """
    from muster.cli.offline.plan import run_curve, run_plan

    if curve:
        typer.echo(run_curve(cluster, job, devices=devices))
        return
    text = run_plan(cluster, job, devices=devices, aim=aim.value, as_json=output is Output.JSON)
    typer.echo(text)


@offline.command(rich_help_panel=OFFLINE)
def forecast(
    losses: Annotated[Path, typer.Argument(help="CSV with the columns epoch and loss.")],
    decrease: Annotated[
        str, typer.Option(help="Converged when an epoch lowers the loss by less, of the largest loss,")
    ] = "1%",
    epochs: Annotated[int, typer.Option(min=1, help="for so many epochs in a row.")] = 3,
    total: Annotated[
        int | None, typer.Option(min=1, help="Instead: your own number of epochs.")
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="As text or JSON.")] = Output.TEXT,
) -> None:
    """Say how many epochs a training has left, with an interval, from the losses so far.

    Losses that do not follow the curve (a drop of the learning rate, a plateau, NaN) are noticed and
    said; too few points are `unknown`, never a guess. See docs/explanation/convergence.md.

    Example: muster forecast examples/training/curves/cnn-digits-adam.csv --decrease 0.5%
    """
    from muster.cli.offline.forecast import run_forecast
    from muster.files.errors import InputError
    from muster.files.source.quantity import parse_percentage

    try:
        share = parse_percentage(decrease)
    except ValueError as error:
        raise InputError.at("--decrease", str(error)) from error
    as_json = output is Output.JSON
    typer.echo(run_forecast(losses, decrease=share, epochs=epochs, total=total, as_json=as_json))


@offline.command(rich_help_panel=OFFLINE)
def check(
    cluster: ClusterPath,
    jobs: Annotated[list[Path] | None, typer.Argument(help="Job files to hold against it.")] = None,
) -> None:
    """Check a cluster file, and whether jobs could ever run on it.

    Exit code 0 if all is well, 2 with one line that says what is wrong and where.
    """
    from muster.cli.offline.play import load_jobs
    from muster.files.cluster.cluster_file import load_cluster

    loaded = load_cluster(cluster)
    asked = load_jobs(jobs or [], loaded)
    counts = ", ".join(f"{n} {each}" for each, n in loaded.cluster.devices_by_type().items())
    pools = ", ".join(loaded.pools.leaves())
    typer.echo(f"{cluster}: {len(loaded.cluster.nodes)} nodes, {counts}; pools: {pools}")
    for job in asked:
        workers = job.workers
        span = f"{workers.gang}..{workers.most}" if workers.most > workers.gang else f"{workers.gang}"
        typer.echo(f"{job.name}: {span} workers in pool {job.pool}, can run")


@offline.command(rich_help_panel=OFFLINE)
def profile(
    named: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|PATH",
            help="A shipped model, or a profile file (see docs/reference/profiles.md).",
        ),
    ] = None,
) -> None:
    """List the models that come with Muster, or show one: what a step computes, keeps, synchronises.

    Example: muster profile resnet50
    """
    from muster.cli.offline.profile import described, shipped_table

    typer.echo(shipped_table() if named is None else described(named))


@offline.command(rich_help_panel=OFFLINE)
def schema(which: Annotated[Schema, typer.Argument(help="Of which file.")]) -> None:
    """Print the JSON Schema of a file, for editors."""
    from muster.files import cluster_schema, job_schema, profile_schema, schema_text

    makers = {
        Schema.CLUSTER: cluster_schema,
        Schema.JOB: job_schema,
        Schema.PROFILE: profile_schema,
    }
    typer.echo(schema_text(makers[which]()), nl=False)


@offline.command(rich_help_panel=OFFLINE)
def version() -> None:
    """Print the version."""
    from muster import __version__

    typer.echo(__version__)
