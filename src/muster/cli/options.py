"""Options and arguments that several commands share, declared once. Quick to import."""

from typing import Annotated

import typer

from muster.cli.choices import ListFormat, Output

JOBS, DAEMON, ADMIN, OFFLINE = ("Jobs", "The daemon", "Administration", "Without a daemon")
"""Groups of commands in the help."""

Which = Annotated[str, typer.Argument(metavar="JOB", help="A job's number or name.")]
Several = Annotated[list[str], typer.Argument(metavar="JOB...", help="Jobs' numbers or names.")]
Listed = Annotated[ListFormat, typer.Option("--output", "-o", help="A table, a wider one, or JSON.")]
Printed = Annotated[Output, typer.Option("--output", "-o", help="As text or JSON.")]
Watched = Annotated[bool, typer.Option("--watch", "-w", help="Print it again as it changes.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Followed = Annotated[bool, typer.Option("--follow", "-f", help="Go on as long as the job does.")]
