"""Commands about jobs, and their help. Imports stay inside the commands so that help is quick."""

from typing import Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.group import RunCommand
from muster.cli.jobs.options import RunRequest, Submission
from muster.cli.options import (
    JOBS,
    JOBS_SHOWN,
    Listed,
    Printed,
    Several,
    Watched,
    Which,
    Yes,
    option,
    with_options,
)

jobs = typer.Typer(pretty_exceptions_enable=False)


@jobs.command(cls=RunCommand, rich_help_panel=JOBS)
@with_options
def run(request: RunRequest, how: Submission) -> None:
    """Submit a job, after showing its plan and when it is expected to start and finish.

    No file is needed. A script runs in this directory, with the Python of your environment.

    Examples:
      muster run train.py -d 1..4 -- --lr 0.1    1 to 4 workers, as devices are free
      muster run -f -y train.py                  no question; end as the job ends
      muster run -- ./train.sh a b               any program
      muster run job.yaml --pool research        a file; options override it
    """
    from muster.cli.jobs.submit import run_request

    raise typer.Exit(run_request(request, how))


@jobs.command(rich_help_panel=JOBS)
def ps(
    every: Annotated[bool, option(None, "Include finished jobs.", "--all", "-a")] = False,
    user: Annotated[
        str | None, option(None, "Only this user's.", "--user", "-u", metavar="NAME")
    ] = None,
    pool: Annotated[str | None, option(None, "Only this pool's.", metavar="POOL")] = None,
    limit: Annotated[
        int, option(None, "At most N jobs of a page.", "-n", min=1, metavar="N")
    ] = JOBS_SHOWN,
    page: Annotated[int, option(None, "Which page.", "--page", min=1, metavar="N")] = 1,
    output: Listed = "table",
    watch: Watched = False,
) -> None:
    """List jobs: those that run, then those that wait, with -a those that ended; each newest first.

    Examples:
      muster ps -w                watch them
      muster ps -a -n 20          the last 20, finished ones too
      muster ps -o wide           more columns, and the reasons in words
    """
    from muster.cli.jobs.list_jobs import list_jobs

    list_jobs(output, every=every, user=user, pool=pool, limit=limit, page=page, watch=watch)


@jobs.command(rich_help_panel=JOBS)
def show(
    which: Which,
    every: Annotated[bool, option(None, "All changes and predictions.", "--all", "-a")] = False,
    output: Printed = "text",
    watch: Watched = False,
) -> None:
    """Show a job: request, tasks, reasons, changes, predictions against reality.

    Example: muster show 12
    """
    import time

    from muster.cli.render.answers import as_json
    from muster.cli.render.job_page import job_page
    from muster.cli.render.terminal import hint
    from muster.cli.watch import shown

    def answer() -> str:
        detail = client.job(which)
        return as_json(detail) if output == "json" else job_page(detail, time.time(), every=every)

    with daemon() as client:
        shown(answer, watch=watch)
        if output == "text":
            hint(f"\nlogs: muster logs -f {which}")


@jobs.command(rich_help_panel=JOBS)
def logs(
    which: Which,
    task: Annotated[
        str | None,
        typer.Argument(metavar="[TASK]", help="One task, such as worker-0. (default: all)"),
    ] = None,
    follow: Annotated[bool, option(None, "Follow until the job ends.", "--follow", "-f")] = False,
    lines: Annotated[
        int | None, option(None, "Only the last N lines of each task.", "-n", min=0, metavar="N")
    ] = None,
) -> None:
    """Print the output of a job's tasks. With several tasks, each line begins with the task's name.

    Examples:
      muster logs -f 12
      muster logs resnet50 worker-0 -n 100
    """
    from muster.cli.jobs.follow import show_logs

    with daemon(listing="muster ps -a, muster show JOB") as client:
        raise typer.Exit(show_logs(client, which, task, follow=follow, lines=lines))


@jobs.command(rich_help_panel=JOBS)
def stop(
    which: Several,
    yes: Yes = False,
    force: Annotated[bool, option(None, "Kill their tasks at once.", "--force")] = False,
) -> None:
    """Stop jobs. Their tasks get SIGTERM, and time to save a checkpoint.

    Examples:
      muster stop 12 13 -y
      muster stop 12 --force      SIGKILL at once, also to a job that is stopping
    """
    from muster.cli.jobs.change import stop_jobs

    raise typer.Exit(stop_jobs(which, yes=yes, force=force))


@jobs.command(rich_help_panel=JOBS)
def resize(
    which: Which,
    workers: Annotated[str, typer.Argument(metavar="N|N..M", help="Workers, or a range of them.")],
    servers: Annotated[
        int | None, option(None, "Parameter servers. (default: unchanged)", min=1, metavar="N")
    ] = None,
) -> None:
    """Change how many workers a job asks for. Jobs that use Muster's runtime are not restarted.

    Examples:
      muster resize 12 4          exactly 4
      muster resize 12 2..6       2 to 6, as devices are free
    """
    from muster.cli.jobs.change import resize_job

    resize_job(which, workers, servers)


@jobs.command(rich_help_panel=JOBS)
def wait(
    which: Several,
    timeout: Annotated[
        str | None, option(None, "Give up after this time, with exit code 101.", metavar="TIME")
    ] = None,
    output: Printed = "text",
) -> None:
    """Wait until jobs have finished. The exit code is that of the first that did not succeed.

    Example: muster wait 12 13 --timeout 2h && echo done
    """
    from muster.cli.jobs.follow import wait_for
    from muster.cli.parse import seconds_of

    limit = None if timeout is None else seconds_of("--timeout", timeout)
    with daemon() as client:
        raise typer.Exit(wait_for(client, which, limit, as_json=output == "json"))


@jobs.command(rich_help_panel=JOBS)
def top(
    once: Annotated[bool, option(None, "Print once and exit.", "--once")] = False,
    interval: Annotated[str, option(None, "Time between updates.", metavar="TIME")] = "1s",
) -> None:
    """Watch the cluster: devices and their jobs, progress, pools, and recent decisions.

    Each letter is a device, and the job that holds it. Ctrl-C exits.
    """
    from muster.cli.jobs.top import run_top
    from muster.cli.parse import seconds_of

    run_top(once=once, interval=seconds_of("--interval", interval))
