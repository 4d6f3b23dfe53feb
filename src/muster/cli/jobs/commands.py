"""Commands about jobs, and their help. Imports stay inside the commands so that help is quick."""

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.choices import Form, Output, Resize
from muster.cli.connect import daemon
from muster.cli.group import RunCommand
from muster.cli.options import JOBS, Followed, Listed, Printed, Several, Watched, Which, Yes

jobs = typer.Typer(pretty_exceptions_enable=False)

ASKED, THEN = "What the job asks for", "What happens then"
"""Groups of options of `muster run`."""


@jobs.command(cls=RunCommand, rich_help_panel=JOBS)
def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="A Python script, a program, or a job file: docs/reference/files.md."
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Its own; those that begin with a dash after --."),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices",
            "-d",
            metavar="N|N..M",
            rich_help_panel=ASKED,
            help="Workers, each with a device: 4, 1..8, V100:1..8; 0 for none. (default: 1)",
        ),
    ] = None,
    servers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", rich_help_panel=ASKED, help="Parameter servers beside them."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", rich_help_panel=ASKED, help="The job's. (default: the script's)"),
    ] = None,
    pool: Annotated[
        str | None, typer.Option(metavar="POOL", rich_help_panel=ASKED, help="Who pays for it.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="N", rich_help_panel=ASKED, help="Higher is sooner.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE]",
            rich_help_panel=ASKED,
            help="A variable of its environment; without a value yours. May be given again.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", rich_help_panel=ASKED, help="Where it works. (default: here)"),
    ] = None,
    elastic: Annotated[
        Resize | None,
        typer.Option(
            rich_help_panel=ASKED, help="Resized while it trains, or stopped and started anew."
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", rich_help_panel=THEN, help="Show its output; Ctrl-C leaves it running."
        ),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", rich_help_panel=THEN, help="Return when it is over.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            rich_help_panel=THEN,
            help="Only say what would become of it. Exit code 0: it would start now; 1: it would "
            "wait; 255: an error.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", rich_help_panel=THEN, help="Do not ask.")] = False,
    output: Annotated[
        Output, typer.Option("--output", "-o", rich_help_panel=THEN, help="As text or JSON.")
    ] = Output.TEXT,
) -> None:
    """Submit a job: show its plan, and when it is expected to start and finish; ask; hand it over.

    No file is needed. A script is run by the Python of your environment, in this folder.

    Examples:
      muster run train.py -d 1..4 -- --lr 0.1    1 to 4 workers, as there is room
      muster run -f -y train.py                  no question; end as the job ends
      muster run -- ./train.sh a b               any program
      muster run job.yaml --pool research        a file; options override it
    """
    from muster.cli.jobs.request import Request
    from muster.cli.jobs.submit import Manner, run_request

    request = Request(
        words=(target, *(arguments or ())),
        devices=devices,
        servers=servers,
        name=name,
        pool=pool,
        priority=priority,
        env=tuple(env or ()),
        folder=folder,
        elastic=elastic,
    )
    as_json = output is Output.JSON
    manner = Manner(dry_run=dry_run, yes=yes, follow=follow, wait=wait, as_json=as_json)
    raise typer.Exit(run_request(request, manner))


@jobs.command(rich_help_panel=JOBS)
def ps(
    every: Annotated[bool, typer.Option("--all", "-a", help="Also those that are over.")] = False,
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="NAME", help="Of one user.")
    ] = None,
    pool: Annotated[str | None, typer.Option(metavar="POOL", help="Of one pool.")] = None,
    limit: Annotated[int, typer.Option("-n", min=1, metavar="N", help="At most so many.")] = 100,
    output: Listed = Form.TABLE,
    watch: Watched = False,
) -> None:
    """List jobs, the newest first: how far they are, when they will be done, and why they wait.

    Examples:
      muster ps -w                watch them
      muster ps -a -n 20          the last 20, finished ones too
      muster ps -o wide           more columns, and the reasons in words
    """
    from muster.cli.jobs.list_jobs import Wanted, list_jobs

    list_jobs(Wanted(every, user, pool, limit), output, watch=watch)


@jobs.command(rich_help_panel=JOBS)
def show(
    which: Which,
    every: Annotated[bool, typer.Option("--all", "-a", help="All changes and predictions.")] = False,
    output: Printed = Output.TEXT,
    watch: Watched = False,
) -> None:
    """Show everything about a job: request, tasks, reasons, changes, predictions against reality.

    Example: muster show 12
    """
    import time

    from muster.cli.render.answers import as_json
    from muster.cli.render.job_page import job_page
    from muster.cli.render.terminal import hint
    from muster.cli.watch import shown

    def answer() -> str:
        detail = client.job(which)
        return as_json(detail) if output is Output.JSON else job_page(detail, time.time(), every=every)

    with daemon() as client:
        shown(answer, watch=watch)
        if output is Output.TEXT:
            hint(f"\nlogs: muster logs -f {which}")


@jobs.command(rich_help_panel=JOBS)
def logs(
    which: Which,
    task: Annotated[
        str | None,
        typer.Argument(metavar="[TASK]", help="One task's alone, such as worker-0. (default: all)"),
    ] = None,
    follow: Followed = False,
    lines: Annotated[
        int | None, typer.Option("-n", min=0, metavar="N", help="Only the last N lines of each task.")
    ] = None,
) -> None:
    """Print what a job's tasks have printed; with -f, what they print from now on as well.

    Of several tasks every line begins with the task's name.

    Examples:
      muster logs -f 12
      muster logs resnet50 worker-0 -n 100
    """
    from muster.cli.jobs.follow import show_logs

    with daemon(listing="muster ps -a, or muster show JOB,") as client:
        raise typer.Exit(show_logs(client, which, task, follow=follow, lines=lines))


@jobs.command(rich_help_panel=JOBS)
def stop(which: Several, yes: Yes = False) -> None:
    """Stop jobs: their tasks get SIGTERM, and time to save what they have done.

    Example: muster stop 12 13 -y
    """
    from muster.cli.jobs.change import stop_jobs

    raise typer.Exit(stop_jobs(which, yes=yes))


@jobs.command(rich_help_panel=JOBS)
def resize(
    which: Which,
    workers: Annotated[str, typer.Argument(metavar="N|N..M", help="Workers, or from least to most.")],
    servers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Parameter servers. (default: as before)")
    ] = None,
) -> None:
    """Ask for other numbers of workers; a job that trains with Muster's runtime is not restarted.

    Examples:
      muster resize 12 4          exactly 4
      muster resize 12 2..6       2 to 6, as the cluster has room
    """
    from muster.cli.jobs.change import resize_job

    resize_job(which, workers, servers)


@jobs.command(rich_help_panel=JOBS)
def wait(
    which: Several,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Give up after so long, with exit code 101.")
    ] = None,
    output: Printed = Output.TEXT,
) -> None:
    """Wait until jobs are over; the exit code is that of the first that did not succeed.

    Example: muster wait 12 13 --timeout 2h && echo done
    """
    from muster.cli.jobs.follow import wait_for
    from muster.cli.times import seconds_of

    limit = None if timeout is None else seconds_of("--timeout", timeout)
    with daemon() as client:
        raise typer.Exit(wait_for(client, which, limit, as_json=output is Output.JSON))


@jobs.command(rich_help_panel=JOBS)
def top(
    once: Annotated[bool, typer.Option("--once", help="Print one picture, and return.")] = False,
    interval: Annotated[str, typer.Option(metavar="TIME", help="Between two pictures.")] = "1s",
) -> None:
    """Watch the cluster: who holds which device, how far jobs are, what pools use, what was decided.

    A letter is a device and the job that holds it. Ctrl-C ends it.
    """
    from muster.cli.jobs.top import run_top
    from muster.cli.times import seconds_of

    run_top(once=once, interval=seconds_of("--interval", interval))
