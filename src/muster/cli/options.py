"""Options and arguments that several commands share, declared once. Quick to import."""

from typing import Annotated, Any

import typer

from muster.cli.choices import ListFormat, Output
from muster.cli.group import QuickGroup

JOBS, DAEMON, ADMIN, OFFLINE = ("Jobs", "Daemon", "Administration", "Without a daemon")
"""Groups of commands in the help."""


def option(panel: str | None, text: str, *names: str, **more: Any) -> Any:
    """Declare an option: its group in the help, its help text, and what Typer takes beside them."""
    return typer.Option(*names, rich_help_panel=panel, help=text, **more)


def noun(name: str, text: str) -> typer.Typer:
    """A group of commands about one kind of thing: `muster NAME VERB`."""
    return typer.Typer(
        name=name, cls=QuickGroup, help=text, no_args_is_help=True, pretty_exceptions_enable=False
    )


Which = Annotated[str, typer.Argument(metavar="JOB", help="Number or name of a job.")]
Several = Annotated[list[str], typer.Argument(metavar="JOB...", help="Numbers or names of jobs.")]
Listed = Annotated[ListFormat, option(None, "Output format.", "--output", "-o")]
Printed = Annotated[Output, option(None, "Output format.", "--output", "-o")]
Watched = Annotated[bool, option(None, "Print again on every change.", "--watch", "-w")]
Yes = Annotated[bool, option(None, "Do not ask for confirmation.", "--yes", "-y")]
