"""Commands that need no daemon, and their help. Imports stay inside them so that help is quick."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from muster.cli.choices import PlacementStrategy
from muster.cli.group import Commands
from muster.cli.options import OFFLINE, Printed, option

offline = Commands()


PlanGoal = Literal["throughput", "per_device"]
"""See docs/explanation/planner.md."""
Schema = Literal["cluster", "job", "pipeline", "profile"]
ClusterPath = Annotated[Path, typer.Argument(help="Cluster file (docs/reference/files.md).")]


@offline.command(rich_help_panel=OFFLINE)
def play(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A cluster file, or a snapshot of a daemon.")
    ],
    jobs: Annotated[
        list[Path] | None, typer.Argument(help="Job files, submitted in this order.")
    ] = None,
    policy: Annotated[
        str | None, option(None, "Scheduling policy. (default: the snapshot's, else fifo)")
    ] = None,
    strategy: Annotated[PlacementStrategy, option(None, "Placement strategy.")] = "adaptive",
    every: Annotated[str, option(None, "Time between submissions.")] = "5m",
    output: Printed = "text",
) -> None:
    """Play jobs on a cluster on a virtual clock, and say why each starts, changes or waits.

    Nothing is run: it is the real scheduling cycle, every decision checked, against the files' figures.
    With a snapshot (see muster snapshot), decide once on the state that it holds.

    Examples:
      muster play examples/clusters/lab.yaml examples/jobs/*.yaml --every 10m
      muster play snapshot.json --policy tiresias
    """
    from rich.console import Console

    from muster.cli.offline.play import play_file
    from muster.cli.parse import parsed, policy_of
    from muster.files.source.quantity import parse_duration

    play_file(
        file,
        jobs or [],
        policy=None if policy is None else policy_of("--policy", policy),
        strategy=strategy,
        every=parsed("--every", every, parse_duration),
        as_json=output == "json",
        console=Console(highlight=False),
    )


@offline.command(rich_help_panel=OFFLINE)
def plan(
    cluster: ClusterPath,
    job: Annotated[
        Path, typer.Argument(help="Job file that names its model (docs/reference/profiles.md).")
    ],
    devices: Annotated[
        int | None, option(None, "Most devices to use. (default: the job's)", "--devices", "-d", min=1)
    ] = None,
    aim: Annotated[PlanGoal, option(None, "What to optimise for.")] = "throughput",
    curve: Annotated[bool, option(None, "Show the speed by number of devices.", "--curve")] = False,
    output: Printed = "text",
) -> None:
    """Plan a job on a cluster: which tasks, on which nodes, how they synchronise, and how fast.

    Candidate plans are generated and priced by the performance model; the best is shown with the
    runner-up and the reason. Nothing is run. The cluster is taken as empty.

    Example: muster plan examples/clusters/dike-30.yaml examples/plans/resnet50.yaml -d 32
    """
    from muster.cli.offline.plan import run_curve, run_plan

    if curve:
        typer.echo(run_curve(cluster, job, devices=devices))
        return
    text = run_plan(cluster, job, devices=devices, aim=aim, as_json=output == "json")
    typer.echo(text)


@offline.command(rich_help_panel=OFFLINE)
def forecast(
    losses: Annotated[
        str,
        typer.Argument(
            metavar="JOB|FILE",
            help="A job, or a CSV file with the columns epoch and loss.",
        ),
    ],
    decrease: Annotated[
        str, option(None, "Converged when epochs lower the loss by less than this part of the largest.")
    ] = "1%",
    epochs: Annotated[int, option(None, "Number of such epochs in a row.", min=1)] = 3,
    total: Annotated[
        int | None, option(None, "Your own number of epochs, instead of convergence.", min=1)
    ] = None,
    output: Printed = "text",
) -> None:
    """Predict how many epochs a training has left, with an interval, from its losses so far.

    Of a job, until the end that it has itself (`until`). Losses that do not follow the curve (a drop
    of the learning rate, a plateau, NaN) are reported; with too few points the answer is
    `unknown`, never a guess. See docs/explanation/convergence.md.

    Examples:
      muster forecast 12
      muster forecast examples/training/curves/cnn-digits-adam.csv --decrease 0.5%
    """
    if not ("/" in losses or losses.endswith(".csv") or Path(losses).is_file()):
        _forecast_job(losses, as_json=output == "json")
        return
    from muster.cli.offline.forecast import run_forecast
    from muster.cli.parse import parsed
    from muster.files.source.quantity import parse_percentage

    share = parsed("--decrease", decrease, parse_percentage)
    as_json = output == "json"
    typer.echo(run_forecast(Path(losses), decrease=share, epochs=epochs, total=total, as_json=as_json))


def _forecast_job(which: str, *, as_json: bool) -> None:
    import time

    from muster.cli.connect import daemon
    from muster.cli.offline.forecast import job_forecast

    with daemon() as client:
        typer.echo(job_forecast(client.job(which).job, time.time(), as_json=as_json))


@offline.command(rich_help_panel=OFFLINE)
def check(
    cluster: ClusterPath,
    jobs: Annotated[list[Path] | None, typer.Argument(help="Job files to check against it.")] = None,
    offer: Annotated[
        list[Path] | None,
        option(
            None,
            "What a node offers, as muster agent --describe prints it; - reads it from standard "
            "input; repeatable.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Check a cluster file, whether jobs could ever run on it, and what nodes would count as.

    Exit code 0, or 2 and one line that says what is wrong and where.

    Examples:
      muster check cluster.yaml job.yaml
      ssh gpu7 muster agent --describe | muster check cluster.yaml --offer -
    """
    from muster.cli.offline.classify import classified, read_offer_file
    from muster.cli.offline.play import devices_text, load_jobs
    from muster.cli.render.words import counted
    from muster.files.cluster.cluster_file import load_cluster

    loaded = load_cluster(cluster)
    asked = load_jobs(jobs or [], loaded)
    pools = ", ".join(loaded.pools.leaves())
    rules = f", {counted(len(loaded.classifier.rules), 'rule')}" if loaded.cluster.open else ""
    typer.echo(f"{cluster}: {devices_text(loaded.cluster)}{rules}; pools: {pools}")
    for job in asked:
        workers = job.workers
        span = f"{workers.gang}..{workers.most}" if workers.most > workers.gang else f"{workers.gang}"
        typer.echo(f"{job.name}: {span} workers in pool {job.pool}, can run")
    for path in offer or ():
        typer.echo(classified(loaded.classifier, read_offer_file(path)))


@offline.command(rich_help_panel=OFFLINE)
def profile(
    named: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|PATH", help="A shipped model, or a profile file (docs/reference/profiles.md)."
        ),
    ] = None,
) -> None:
    """List the models that come with Muster, or show one: what a step computes, keeps, synchronises.

    Example: muster profile resnet50
    """
    from muster.cli.offline.profile import described, shipped_table

    typer.echo(shipped_table() if named is None else described(named))


@offline.command(rich_help_panel=OFFLINE)
def schema(which: Annotated[Schema, typer.Argument(help="Kind of file.")]) -> None:
    """Print the JSON Schema of a kind of file, for editors."""
    from muster.files.cluster.cluster_file import cluster_schema
    from muster.files.job.job_file import job_schema
    from muster.files.job.pipeline import pipeline_schema
    from muster.files.profile.profile_file import profile_schema
    from muster.files.source.validation import schema_text

    makers = {"cluster": cluster_schema, "job": job_schema, "profile": profile_schema}
    makers["pipeline"] = pipeline_schema
    typer.echo(schema_text(makers[which]()), nl=False)


@offline.command(rich_help_panel=OFFLINE)
def version() -> None:
    """Print the version."""
    from muster import __version__

    typer.echo(__version__)
