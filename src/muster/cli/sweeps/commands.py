"""`muster sweep`. Imports stay inside the commands so that help is quick."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.choices import Output
from muster.cli.connect import daemon
from muster.cli.jobs.complete import complete_sweeps
from muster.cli.options import FORMATS, Printed, Watched, Yes, noun, option

sweep = noun("sweep", "Sweeps: many jobs of one command, submitted with muster run --sweep.")

_LISTING = "muster sweep ls"

WhichSweep = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP",
        help="Number or name of a sweep; another user's: USER/NAME.",
        autocompletion=complete_sweeps,
    ),
]
ByMetric = Annotated[
    str | None,
    option(None, "Metric that ranks members. (default: the sweep's own)", "--by", metavar="METRIC"),
]


@sweep.command("ls")
def list_(
    limit: Annotated[int, option(None, "At most N sweeps.", "-n", min=1, max=1000, metavar="N")] = 20,
    output: Annotated[Output, option(None, FORMATS, "--output", "-o")] = "text",
) -> None:
    """List sweeps, newest first.

    Example: muster sweep ls
    """
    from muster.cli.render.answers import as_json
    from muster.cli.sweeps.show import sweep_table

    with daemon(listing=_LISTING) as client:
        found = client.sweeps(page=limit)
    typer.echo(as_json(found) if output == "json" else sweep_table(found))


@sweep.command()
def show(
    which: WhichSweep,
    by: ByMetric = None,
    largest: Annotated[
        bool | None,
        option(None, "Whether the largest or the smallest is the best.", "--max/--min"),
    ] = None,
    limit: Annotated[int, option(None, "At most N members; 0: all.", "-n", min=0, metavar="N")] = 50,
    plot: Annotated[
        bool, option(None, "Draw the metric over each parameter, in the terminal.", "--plot")
    ] = False,
    image: Annotated[
        Path | None,
        option(None, "Write that as an image: sweep.png, .svg or .pdf.", "--image", metavar="FILE"),
    ] = None,
    output: Printed = "text",
    watch: Watched = False,
) -> None:
    """Show a sweep: its members, the best first, with their values and metrics.

    Examples:
      muster sweep show lr-search                 by its own metric, or the loss
      muster sweep show lr-search --by accuracy --max
      muster sweep show lr-search --plot          how the metric depends on each parameter
    """
    from muster.cli.render.answers import as_json
    from muster.cli.sweeps.plot import drawn, write_image
    from muster.cli.sweeps.show import sweep_page
    from muster.cli.watch import shown

    def answer() -> str:
        detail = client.sweep_detail(which)
        metric = by or detail.sweep.metric
        if image is not None:
            write_image(image, detail.members, metric, f"sweep {detail.sweep.name}")
        if output == "json":
            return as_json(detail)
        page = sweep_page(detail, by, largest=largest, limit=limit)
        return f"{page}\n\n{drawn(detail.members, metric)}" if plot else page

    with daemon(listing=_LISTING) as client:
        shown(answer, watch=watch)


@sweep.command()
def stop(
    which: WhichSweep,
    yes: Yes = False,
    force: Annotated[bool, option(None, "Kill their tasks at once.", "--force")] = False,
) -> None:
    """Stop all members of a sweep; no further one is started. Their checkpoints are kept.

    Example: muster sweep stop lr-search -y
    """
    from muster.cli.render.terminal import confirm
    from muster.cli.sweeps.show import sweep_words

    with daemon(listing=_LISTING) as client:
        record = client.sweep_detail(which).sweep
        confirm(f"Stop sweep {record.number} ({record.name}: {sweep_words(record)})?", yes=yes)
        stopped = client.stop_sweep(which, force=force)
    typer.echo(f"sweep {stopped.number} ({stopped.name}): {sweep_words(stopped)}")


@sweep.command()
def wait(
    which: WhichSweep,
    timeout: Annotated[str | None, option(None, "Give up after this time.", metavar="TIME")] = None,
) -> None:
    """Wait until all members of a sweep are over. The exit code tells whether all have succeeded or
    were pruned.

    Example: muster sweep wait lr-search && muster sweep show lr-search
    """
    from muster.cli.exits import NOT_FINISHED, code_of
    from muster.cli.parse import seconds_of
    from muster.cli.sweeps.show import sweep_words

    with daemon(listing=_LISTING) as client:
        handle = client.sweep_handle(which)
        try:
            over = handle.wait(None if timeout is None else seconds_of("--timeout", timeout))
        except TimeoutError as late:
            typer.echo(f"muster: {late}", err=True)
            raise typer.Exit(NOT_FINISHED) from None
    typer.echo(f"sweep {over.number} ({over.name}): {sweep_words(over)}")
    raise typer.Exit(code_of(over.outcome))


@sweep.command()
def resize(
    which: WhichSweep,
    at_most: Annotated[
        str, typer.Argument(metavar="N|any", help="Members that may run at once; `any`: no limit.")
    ],
) -> None:
    """Change how many members of a sweep run at once. Those that run are not stopped.

    Examples:
      muster sweep resize lr-search 8
      muster sweep resize lr-search any
    """
    from muster.cli.parse import parsed
    from muster.cli.sweeps.show import sweep_words
    from muster.files.source.quantity import parse_whole

    most = None if at_most == "any" else parsed("N", at_most, lambda text: parse_whole(text, 1, 10_000))
    with daemon(listing=_LISTING) as client:
        changed = client.resize_sweep(which, most)
    typer.echo(f"sweep {changed.number} ({changed.name}): {sweep_words(changed)}")


@sweep.command(
    "continue", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def continue_(
    which: WhichSweep,
    member: Annotated[
        str, typer.Argument(metavar="MEMBER[,...]", help="Indices of members, or `best`.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Added to the command: a later value overrides."),
    ] = None,
) -> None:
    """Continue members that are over from their checkpoints, as jobs of the same names.

    What follows the members is added to their command.

    Examples:
      muster sweep continue lr-search 3 --epochs 50
      muster sweep continue lr-search best --epochs 100
    """
    from muster.cli.render.terminal import hint
    from muster.wire.api.sweep_records import best_first

    with daemon(listing=_LISTING) as client:
        members = member.split(",")
        if member == "best":
            detail = client.sweep_detail(which)
            own = detail.sweep
            members = [best_first(detail.members, own.metric, largest=own.largest)[0].index]
        jobs = client.continue_sweep(which, members, arguments or ())
    for job in jobs:
        typer.echo(f"job {job.number} ({job.name}) submitted")
    hint(f"wait: muster wait {' '.join(job.name for job in jobs)} · then: muster sweep show {which}")
