"""The `muster` command."""

import os
import sys
from typing import Annotated

import typer

from muster import __version__
from muster.cli.admin.audit import audit
from muster.cli.admin.defrag import defrag
from muster.cli.admin.limits import limit
from muster.cli.admin.nodes import node
from muster.cli.admin.notifications import notify
from muster.cli.admin.policies import policy
from muster.cli.admin.pools import pool
from muster.cli.admin.tokens import token
from muster.cli.admin.usage import usage
from muster.cli.compat.commands import compat
from muster.cli.daemon.agent import agents
from muster.cli.daemon.backup import backup
from muster.cli.daemon.commands import machine
from muster.cli.daemon.page import page
from muster.cli.exits import BAD_INPUT, EPILOG
from muster.cli.group import QuickGroup
from muster.cli.history.commands import history_files
from muster.cli.inside.commands import inside
from muster.cli.jobs.commands import jobs
from muster.cli.jobs.control import control
from muster.cli.jobs.reading.accuracy import accuracy
from muster.cli.jobs.reading.history import history
from muster.cli.jobs.reading.why import stories
from muster.cli.jobs.submitting.repeat import repeat, template
from muster.cli.offline.commands import offline
from muster.cli.offline.shell import COMPLETE, shell
from muster.cli.options import ADMIN, JOBS, OFFLINE, option
from muster.cli.sim.commands import sim
from muster.cli.sweeps.commands import sweep
from muster.cli.whatif.commands import whatif

app = typer.Typer(
    name="muster",
    cls=QuickGroup,
    help="Share a cluster of accelerators among deep-learning jobs.\n\n"
    "Start with `muster up --devices 8`, then `muster run train.py` and `muster top`.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"muster {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, option(None, "Print the version.", "--version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.add_typer(jobs)
app.add_typer(control)
app.add_typer(history)
app.add_typer(accuracy)
app.add_typer(stories)
app.add_typer(usage)
app.add_typer(history_files, rich_help_panel=JOBS)
app.add_typer(whatif)
app.add_typer(sweep, rich_help_panel=JOBS)
app.add_typer(compat, rich_help_panel=JOBS)
app.add_typer(inside)
app.add_typer(repeat)
app.add_typer(machine)
app.add_typer(agents)
app.add_typer(template, rich_help_panel=JOBS)
for noun in (pool, node, policy, token, limit):
    app.add_typer(noun, rich_help_panel=ADMIN)
app.add_typer(notify, rich_help_panel=JOBS)
app.add_typer(audit)
app.add_typer(defrag)
app.add_typer(backup)
app.add_typer(page)
app.add_typer(offline)
app.add_typer(sim, rich_help_panel=OFFLINE)
app.add_typer(shell)


def main() -> None:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    # NumPy reads this once, at import: many threads on small matrices make OpenBLAS a hundred times
    # slower on busy cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if COMPLETE in os.environ:
        from typer._completion_classes import completion_init  # only when a shell asks

        completion_init()
    try:
        app(prog_name="muster")
    except ValueError as error:
        # Imported only now: it would double the time of `--help`.
        from muster.files.errors import InputError

        if not isinstance(error, InputError):
            raise
        for line in getattr(error, "lines", (str(error),)):
            typer.echo(f"muster: {line}", err=True)
        sys.exit(BAD_INPUT)
