"""`muster sim`: its commands and their help. Imports stay inside the commands so that help is quick."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.choices import Output
from muster.cli.exits import INTERRUPTED
from muster.cli.group import QuickGroup
from muster.cli.sim.options import (
    FILES,
    INPUT,
    Asked,
    First,
    Printed,
    Rigid,
    Seed,
    Skip,
    Sort,
    Speeds,
    Tables,
    with_options,
)

sim = typer.Typer(
    name="sim",
    cls=QuickGroup,
    help="Simulate a cluster: the real cycle on a virtual clock. See docs/reference/simulator.md.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=FILES, help="No progress bar.")]
Gantt = Annotated[
    bool,
    typer.Option(
        "--gantt", rich_help_panel=FILES, help="Keep who held which device when, and draw it."
    ),
]
Plots = Annotated[
    Path | None,
    typer.Option(metavar="DIR", rich_help_panel=FILES, help="Write the figures as PNG there."),
]
Format = Annotated[
    Tables, typer.Option("--format", rich_help_panel=FILES, help="Of the tables that are stored.")
]


@sim.command()
@with_options
def run(
    asked: Asked,
    policy: Annotated[
        str, typer.Option(metavar="NAME", rich_help_panel=INPUT, help="Who gets how much.")
    ] = "muster",
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", rich_help_panel=FILES, help="Store jobs and samples there."),
    ] = None,
    form: Format = Tables.CSV,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=FILES, help="Write a report with figures."),
    ] = None,
    plots: Plots = None,
    gantt: Gantt = False,
    output: Printed = Output.TEXT,
    quiet: Quiet = False,
) -> None:
    """Simulate one policy, and print its figures beside what no policy could beat.

    Example: muster sim run --cluster examples/clusters/t4-16x4.yaml --trace philly-like:jobs=200
    --policy tiresias --html report.html
    """
    try:
        from muster.cli.sim.parse import configuration_of
        from muster.cli.sim.run import Wanted, run_one

        wanted = Wanted(out, form.value, html, plots, gantt, output is Output.JSON, quiet)
        typer.echo(run_one(configuration_of(asked, policy, seed), wanted))
    except KeyboardInterrupt:
        typer.echo("muster: stopped; there is no result", err=True)
        raise typer.Exit(INTERRUPTED) from None


@sim.command()
@with_options
def compare(
    asked: Asked,
    policies: Annotated[
        str,
        typer.Option(
            metavar="A,B,C", rich_help_panel=INPUT, help="Policies; the first is the measure."
        ),
    ] = "muster,afs,tiresias,fifo",
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", rich_help_panel=INPUT, help="Seeds 0 to N-1.")
    ] = 1,
    jobs: Annotated[
        int,
        typer.Option("-j", min=1, metavar="N", rich_help_panel=FILES, help="Simulations at a time."),
    ] = 1,
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", rich_help_panel=FILES, help="Where results are stored and found."),
    ] = Path("sim-results"),
    fresh: Annotated[
        bool,
        typer.Option("--fresh", rich_help_panel=FILES, help="Simulate anew what is stored already."),
    ] = False,
    form: Format = Tables.CSV,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=FILES, help="The report (default: DIR/report.html)."
        ),
    ] = None,
    plots: Plots = None,
    gantt: Gantt = False,
    full: Annotated[
        bool, typer.Option("--full", rich_help_panel=FILES, help="Print every column.")
    ] = False,
    output: Printed = Output.TEXT,
    quiet: Quiet = False,
) -> None:
    """Simulate several policies on the same jobs and seeds, and print them side by side.

    Interrupted, the same command goes on with what is missing.

    Example: muster sim compare --policies tiresias,srtf,fifo --seeds 5 -j 2
    --cluster examples/clusters/t4-16x4.yaml --trace philly-like:jobs=200
    """
    from muster.cli.sim.compare import Comparing, run_compare
    from muster.cli.sim.parse import configuration_of, policies_of

    names = policies_of(policies)
    configuration = configuration_of(asked, names[0], 0)
    wanted = Comparing(
        names,
        seeds,
        jobs,
        out,
        fresh,
        form.value,
        html,
        plots,
        gantt,
        full,
        output is Output.JSON,
        quiet,
    )
    raise typer.Exit(run_compare(configuration, wanted))


@sim.command()
def trace(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|GENERATOR", help="The trace; without it: the generators there are."
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=INPUT, help="Hold it against this cluster."),
    ] = None,
    speeds: Speeds = None,
    rigid: Rigid = False,
    first: First = None,
    seed: Seed = 0,
    sort: Sort = False,
    skip: Skip = False,
    head: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", rich_help_panel=FILES, help="Show the first N jobs instead."),
    ] = None,
    output: Printed = Output.TEXT,
) -> None:
    """Say what is in a trace: jobs, sizes, run times, and the load over time.

    Example: muster sim trace philly-like:jobs=500 --cluster examples/clusters/t4-16x4.yaml
    """
    from muster.cli.sim.trace import Looked, run_trace

    looked = Looked(cluster, speeds, rigid, first, seed, sort, skip, head, output is Output.JSON)
    typer.echo(run_trace(text, looked))
