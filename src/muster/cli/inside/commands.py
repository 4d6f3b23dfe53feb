"""Commands that lead into a job. Imports stay inside, so that help is quick."""

from typing import Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.group import Commands, RunCommand
from muster.cli.options import JOBS, WhichLive, option

inside = Commands()

Rank = Annotated[
    int | None,
    option(None, "Which worker, from 0. (default: the first)", "--rank", "-r", min=0, metavar="N"),
]
Task = Annotated[
    str | None, option(None, "Or which task, by its name: server-0.", "--task", metavar="TASK")
]


@inside.command("exec", cls=RunCommand, rich_help_panel=JOBS)
def exec_command(
    which: WhichLive,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]", help="What to run, after --. (default: a shell)"),
    ] = None,
    rank: Rank = None,
    task: Task = None,
    no_terminal: Annotated[
        bool, option(None, "Use pipes even on a terminal.", "--no-terminal", "-T")
    ] = False,
) -> None:
    """Run a command, or a shell, beside a running task: with its environment, folder and devices.

    On a terminal the command gets one, too; with pipes, standard input, output and errors stay apart.
    The exit code is the command's. It ends with the task.

    Examples:
      muster exec 12                          a shell beside the first worker
      muster exec 12 --rank 3 -- nvidia-smi   a command beside the fourth
      muster exec 12 -- py-spy dump --pid 1   any program of the job's environment
      tar c src | muster exec 12 -- tar x     pipes work
    """
    from muster.cli.inside.terminal import execute

    with daemon() as client:
        raise typer.Exit(execute(client, which, command or [], rank, task, terminal=not no_terminal))


@inside.command(rich_help_panel=JOBS)
def attach(
    which: WhichLive,
    rank: Rank = None,
    task: Task = None,
    detach_keys: Annotated[
        str, option(None, "Keys that leave it running.", "--detach-keys", metavar="KEYS")
    ] = "ctrl-p,ctrl-q",
) -> None:
    """Attach to an interactive job's terminal, or follow another job's output.

    Ctrl-P Ctrl-Q detaches, and the job keeps running; who attaches elsewhere takes over.

    Examples:
      muster attach 12
      muster attach 12 --detach-keys ctrl-a,d
    """
    from muster.cli.inside.terminal import attach_to

    with daemon() as client:
        raise typer.Exit(attach_to(client, which, rank, task, detach_keys))


@inside.command(rich_help_panel=JOBS)
def forward(
    which: WhichLive,
    port: Annotated[
        str,
        typer.Argument(metavar="PORT[:LOCAL]", help="Port of the task, and the one here."),
    ],
    rank: Rank = None,
) -> None:
    """Reach a port of a job at a port of this machine, until Ctrl-C; several connections at once.

    Examples:
      muster forward 12 6006            TensorBoard at http://127.0.0.1:6006
      muster forward 12 6006:16006      the same at 16006
    """
    from muster.cli.inside.ports import forward_port

    with daemon() as client:
        raise typer.Exit(forward_port(client, which, port, rank))


@inside.command(rich_help_panel=JOBS)
def cp(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="JOB:PATH, or a path here.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A path here, or JOB:PATH.")],
    rank: Rank = None,
) -> None:
    """Copy files and folders from a job to this machine, or the other way.

    Paths of a job are relative to its working folder, and lead nowhere else but to its own folder and
    its checkpoints. Jobs that have ended keep their files for a week.

    Examples:
      muster cp 12:results.csv .
      muster cp 12:checkpoint ./kept      a folder, under another name
      muster cp data/ 12:data
    """
    from muster.cli.inside.files import copy

    with daemon() as client:
        raise typer.Exit(copy(client, source, target, rank))
