"""Commands that hold, release, requeue, reprioritise and end live jobs by their loss."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.connect import daemon, exit_code, report
from muster.cli.group import Commands
from muster.cli.options import JOBS, SeveralLive, WhichLive

if TYPE_CHECKING:
    from muster.client import Client
    from muster.wire.api.records import JobRecord

control = Commands()


@control.command(rich_help_panel=JOBS)
def hold(which: SeveralLive) -> None:
    """Hold jobs: a waiting one is not started; a running one is stopped, after a checkpoint if it can
    write one, and waits.

    Example: muster hold 12
    """
    raise typer.Exit(_each(which, lambda client, job: client.hold(job)))


@control.command(rich_help_panel=JOBS)
def release(which: SeveralLive) -> None:
    """Release held jobs: they wait in the queue where they were.

    Example: muster release 12
    """
    raise typer.Exit(_each(which, lambda client, job: client.release(job)))


@control.command(rich_help_panel=JOBS)
def requeue(which: SeveralLive) -> None:
    """Stop running jobs, after a checkpoint if they can write one, and queue them again.

    Example: muster requeue 12
    """
    raise typer.Exit(_each(which, lambda client, job: client.requeue(job)))


@control.command(rich_help_panel=JOBS, context_settings={"ignore_unknown_options": True})
def priority(
    which: WhichLive,
    value: Annotated[int, typer.Argument(metavar="N", help="Priority; higher runs sooner.")],
) -> None:
    """Change a job's priority. It counts from the next decision on.

    Example: muster priority 12 10
    """
    with daemon() as client:
        job = client.set_priority(which, value)
        typer.echo(f"job {job.number} ({job.name}): priority {job.priority}")


@control.command(rich_help_panel=JOBS)
def until(
    which: WhichLive,
    ending: Annotated[
        str,
        typer.Argument(metavar="ENDING", help="As in `muster run --until`; `none`: no such end."),
    ],
) -> None:
    """Change when the loss ends a job's training. One that runs judges its next epoch by it, whatever
    its script says.

    Example: muster until 12 'converged 0.5%'
    """
    with daemon() as client:
        job = client.set_until(which, "" if ending == "none" else ending)
        typer.echo(f"job {job.number} ({job.name}): ends by {job.until or 'its own epochs or steps'}")


def _each(which: Sequence[str], change: "Callable[[Client, str], JobRecord]") -> int:
    """Change the jobs; return the exit code of the first that cannot be changed."""
    from muster.cli.render.terminal import painted
    from muster.client import ClientError

    code = 0
    with daemon() as client:
        for each in which:
            try:
                job = change(client, each)
            except ClientError as error:
                report(error)
                code = code or exit_code(error)
            else:
                why = f", {job.reason}" if job.code == "waiting.held" else ""
                typer.echo(f"job {job.number} ({job.name}): {painted(job.status)}{why}")
    return code
