"""Commands about jobs, and their help. Imports stay inside the commands so that help is quick."""

from typing import Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.group import Commands, RunCommand
from muster.cli.inside.options import SessionOptions
from muster.cli.jobs.complete import complete_either, complete_live
from muster.cli.jobs.filters import FILTER, JobFilters, refuse_mixed
from muster.cli.jobs.submitting.field_options import FieldOptions
from muster.cli.jobs.submitting.options import RunRequest, Submission
from muster.cli.options import (
    JOBS,
    JOBS_SHOWN,
    Listed,
    Printed,
    Watched,
    Which,
    WhichLive,
    Yes,
    option,
    with_options,
)

Some = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[JOB...]",
        help="Numbers or names of jobs or sweeps; none with a filter.",
        autocompletion=complete_either,
    ),
]

SomeLive = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[JOB...]",
        help="Numbers or names of jobs or sweeps; none with a filter.",
        autocompletion=complete_live,
    ),
]

jobs = Commands()


@jobs.command(cls=RunCommand, rich_help_panel=JOBS)
@with_options
def run(request: RunRequest, session: SessionOptions, more: FieldOptions, how: Submission) -> None:
    """Submit a job, after showing its plan and when it is expected to start and finish.

    No file is needed. A script runs in this directory, with the Python of your environment.

    Examples:
      muster run train.py -d 1..4 -- --lr 0.1    1 to 4 workers, as devices are free
      muster run -f -y train.py                  no question; end as the job ends
      muster run -- ./train.sh a b               any program
      muster run job.yaml --pool research        a file; options override it
      muster run train.py --sweep lr=0.1,0.01 --sweep seed=1..4 -- --lr {lr} --seed {seed}
      muster run job.sbatch                      a batch script of Slurm's, by its #SBATCH lines
      muster run train.py --after prep:ok        once the job prep has succeeded
      muster run pipeline.yaml                   several jobs, one after the other
      muster run -t bert -- --lr 0.1             a saved job, with more arguments
      muster run -i -d 2                         a shell on two devices
      muster run --jupyter                       a notebook server on one, at a port of this machine
    """
    if session.wanted:
        from muster.cli.inside.session import run_session

        raise typer.Exit(run_session(request, session, more))
    from muster.cli.jobs.submitting.submit import run_request

    raise typer.Exit(run_request(request, how, more))


@jobs.command(rich_help_panel=JOBS)
@with_options
def ps(
    filters: JobFilters,
    every: Annotated[bool, option(None, "Include finished jobs.", "--all", "-a")] = False,
    tree: Annotated[bool, option(None, "Jobs below those they come after.", "--tree")] = False,
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
      muster ps -l team=vision --status failed --since 1d
      muster ps --tree            pipelines
    """
    from muster.cli.jobs.reading.list_jobs import Shown, list_jobs

    shown = Shown(every=every, limit=limit, page=page, tree=tree)
    list_jobs(output, filters, shown, watch=watch)


@jobs.command(rich_help_panel=JOBS)
def show(
    which: Which,
    every: Annotated[bool, option(None, "All changes and predictions.", "--all", "-a")] = False,
    output: Printed = "text",
    watch: Watched = False,
) -> None:
    """Show a job: request, tasks, reasons, changes, predictions against reality. Of a sweep, its
    members (see `muster sweep show`).

    Example: muster show 12
    """
    from muster.cli.jobs.reading.show import show_named

    show_named(which, every=every, as_json=output == "json", watch=watch)


@jobs.command(rich_help_panel=JOBS)
@with_options
def logs(
    filters: JobFilters,
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="Number or name of a job; none with a filter.",
            autocompletion=complete_either,
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Argument(metavar="[TASK]", help="One task, such as worker-0. (default: all)"),
    ] = None,
    follow: Annotated[bool, option(None, "Follow until the job ends.", "--follow", "-f")] = False,
    lines: Annotated[
        int | None, option(None, "Only the last N lines of each task.", "-n", min=0, metavar="N")
    ] = None,
) -> None:
    """Print the output of a job's tasks. With several tasks, each line begins with the task's name;
    with a filter, with the job's name before it.

    Examples:
      muster logs -f 12
      muster logs resnet50 worker-0 -n 100
      muster logs -f -l run=a             live jobs with this label
      muster logs --status failed --since 1d -n 20
    """
    from muster.cli.jobs.named import handle_named, members_of
    from muster.cli.jobs.reading.follow import show_logs
    from muster.cli.jobs.select import logs_of, matching
    from muster.client.handles.sweep_handle import SweepHandle

    with daemon(listing="muster ps -a, muster show JOB") as client:
        if which is None:
            found = matching(client, filters, ended=bool(filters.status))
            raise typer.Exit(logs_of(client, found, follow=follow, lines=lines))
        refuse_mixed(filters, which)
        named = handle_named(client, which) if task is None else None
        if isinstance(named, SweepHandle):
            found = members_of(client, named)
            raise typer.Exit(logs_of(client, found, follow=follow, lines=lines))
        raise typer.Exit(show_logs(client, which, task, follow=follow, lines=lines))


@jobs.command(rich_help_panel=JOBS)
@with_options
def stop(
    filters: JobFilters,
    which: SomeLive = None,
    every: Annotated[
        bool, option(FILTER, "All your live jobs; with -u another user's, or '*'.", "--all")
    ] = False,
    yes: Yes = False,
    force: Annotated[bool, option(None, "Kill their tasks at once.", "--force")] = False,
) -> None:
    """Stop jobs, or sweeps with all their members. Their tasks get SIGTERM, and time to save a
    checkpoint.

    Examples:
      muster stop 12 13 -y
      muster stop 12 --force      SIGKILL at once, also to a job that is stopping
      muster stop -l sweep=a      your live jobs with this label, after a question
      muster stop --all           all your live jobs, after a question
    """
    from muster.cli.jobs.change import stop_jobs, stop_matching

    if not which:
        raise typer.Exit(stop_matching(filters, every=every, yes=yes, force=force))
    refuse_mixed(filters, *which, every=every)
    raise typer.Exit(stop_jobs(which, yes=yes, force=force))


@jobs.command(rich_help_panel=JOBS)
def resize(
    which: WhichLive,
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
@with_options
def wait(
    filters: JobFilters,
    which: Some = None,
    every: Annotated[bool, option(FILTER, "All your live jobs.", "--all")] = False,
    timeout: Annotated[
        str | None, option(None, "Give up after this time, with exit code 101.", metavar="TIME")
    ] = None,
    output: Printed = "text",
) -> None:
    """Wait until jobs or sweeps have finished. The exit code is that of the first that did not
    succeed.

    Examples:
      muster wait 12 13 --timeout 2h && echo done
      muster wait -l run=a        your jobs with this label that are live now
    """
    from muster.cli.jobs.reading.follow import wait_for
    from muster.cli.jobs.select import matching
    from muster.cli.parse import seconds_of
    from muster.cli.render.terminal import complain

    limit = None if timeout is None else seconds_of("--timeout", timeout)
    with daemon() as client:
        if which:
            refuse_mixed(filters, *which, every=every)
        else:
            which = [str(job.number) for job in matching(client, filters, every=every)]
            if not which:
                complain("no live job matches; nothing to wait for")
        raise typer.Exit(wait_for(client, which, limit, as_json=output == "json"))


@jobs.command(rich_help_panel=JOBS)
def top(
    once: Annotated[bool, option(None, "Print once and exit.", "--once")] = False,
    interval: Annotated[str, option(None, "Time between updates.", metavar="TIME")] = "1s",
) -> None:
    """Watch the cluster: devices and their jobs, progress, pools, and recent decisions.

    Each letter is a device, and the job that holds it. Ctrl-C exits.
    """
    from muster.cli.jobs.reading.top import run_top
    from muster.cli.parse import seconds_of

    run_top(once=once, interval=seconds_of("--interval", interval))
