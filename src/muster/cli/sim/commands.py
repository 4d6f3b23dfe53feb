"""`muster sim`: its commands and their help. Imports stay inside the commands so that help is quick."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.exits import INTERRUPTED
from muster.cli.options import noun, option, with_options
from muster.cli.sim.options import (
    FILES,
    INPUT,
    Asked,
    Comparing,
    First,
    Printed,
    Rigid,
    RunOutputs,
    Seed,
    Skip,
    Sort,
    Speeds,
)

sim = noun(
    "sim",
    "Simulate a cluster: the real scheduling cycle on a virtual clock (docs/reference/simulator.md).",
)


@sim.command()
@with_options
def run(
    asked: Asked,
    wanted: RunOutputs,
    policy: Annotated[str, option(INPUT, "Scheduling policy.", metavar="NAME")] = "muster",
    seed: Seed = 0,
) -> None:
    """Simulate one policy; print its figures and a lower bound for any policy.

    Example: muster sim run --cluster examples/clusters/t4-16x4.yaml --trace philly-like:jobs=200
    --policy tiresias --html report.html
    """
    try:
        from muster.cli.sim.parse import configuration_of
        from muster.cli.sim.run import run_one

        typer.echo(run_one(configuration_of(asked, policy, seed), wanted))
    except KeyboardInterrupt:
        typer.echo("muster: stopped without a result", err=True)
        raise typer.Exit(INTERRUPTED) from None


@sim.command()
@with_options
def compare(
    asked: Asked,
    policies: Annotated[
        str, option(INPUT, "Policies; the first is the baseline.", metavar="A,B,C")
    ] = "muster,afs,tiresias,fifo",
    *,
    wanted: Comparing,
) -> None:
    """Simulate several policies on the same jobs and seeds, and print them side by side.

    If interrupted, repeat the command to continue.

    Example: muster sim compare --policies tiresias,srtf,fifo --seeds 5 -j 2
    --cluster examples/clusters/t4-16x4.yaml --trace philly-like:jobs=200
    """
    from muster.cli.sim.compare import run_compare
    from muster.cli.sim.parse import configuration_of, policies_of

    names = policies_of(policies)
    raise typer.Exit(run_compare(configuration_of(asked, names[0], 0), names, wanted))


@sim.command()
@with_options
def forecast(
    asked: Asked,
    at: Annotated[
        str, option(INPUT, "When to ask; later answers learn from earlier ones.", metavar="TIMES")
    ],
    policy: Annotated[str, option(INPUT, "Scheduling policy.", metavar="NAME")] = "muster",
    seed: Seed = 0,
    output: Printed = "text",
) -> None:
    """Forecast when each live job starts and ends, and print what came of it.

    At each of the times the future is played forward from the live jobs, 16 times, with what is
    uncertain drawn each time: lengths, jobs yet to come, lost nodes.

    Example: muster sim forecast --at 12h,24h --cluster examples/clusters/t4-16x4.yaml
    --trace diurnal:jobs=100
    """
    from muster.cli.sim.forecast import run_forecast
    from muster.cli.sim.parse import configuration_of

    typer.echo(run_forecast(configuration_of(asked, policy, seed), at, as_json=output == "json"))


@sim.command()
def trace(
    text: Annotated[
        str | None,
        typer.Argument(metavar="FILE|GENERATOR", help="The trace; without it, list generators."),
    ] = None,
    cluster: Annotated[
        Path | None, option(INPUT, "Compare its load with this cluster.", metavar="FILE")
    ] = None,
    speeds: Speeds = None,
    rigid: Rigid = False,
    first: First = None,
    seed: Seed = 0,
    sort: Sort = False,
    skip: Skip = False,
    head: Annotated[
        int | None, option(FILES, "Show the first N jobs instead.", min=1, metavar="N")
    ] = None,
    output: Printed = "text",
) -> None:
    """Summarise a trace: jobs, sizes, run times, and the load over time.

    Example: muster sim trace philly-like:jobs=500 --cluster examples/clusters/t4-16x4.yaml
    """
    from muster.cli.sim.trace import generators, run_trace
    from muster.sim.scenario.configuration import Configuration

    if text is None:
        typer.echo(generators())
        return
    measured = None if speeds is None else str(speeds)
    jobs = Configuration(
        cluster="",
        trace=text,
        policy="",
        seed=seed,
        speeds=measured,
        rigid=rigid,
        first=first,
        sort=sort,
        skip=skip,
    )
    typer.echo(run_trace(jobs, cluster, head=head, as_json=output == "json"))
