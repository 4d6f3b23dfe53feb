"""The `muster` command."""

import os
import sys

import typer

from muster.cli.admin.audit import audit
from muster.cli.admin.limits import limit
from muster.cli.admin.nodes import node
from muster.cli.admin.policies import policy
from muster.cli.admin.pools import pool
from muster.cli.admin.tokens import token
from muster.cli.daemon.agent import agents
from muster.cli.daemon.commands import machine
from muster.cli.exits import BAD_INPUT, EPILOG
from muster.cli.group import QuickGroup
from muster.cli.jobs.commands import jobs
from muster.cli.jobs.control import control
from muster.cli.offline.commands import offline
from muster.cli.options import ADMIN, OFFLINE
from muster.cli.sim.commands import sim

app = typer.Typer(
    name="muster",
    cls=QuickGroup,
    help="Share a cluster of accelerators among deep-learning jobs.\n\n"
    "Start with `muster up --devices 8`, then `muster run train.py` and `muster top`.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(jobs)
app.add_typer(control)
app.add_typer(machine)
app.add_typer(agents)
for noun in (pool, node, policy, token, limit):
    app.add_typer(noun, rich_help_panel=ADMIN)
app.add_typer(audit)
app.add_typer(offline)
app.add_typer(sim, rich_help_panel=OFFLINE)


def main() -> None:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    # NumPy reads this once, at import: many threads on small matrices make OpenBLAS a hundred times
    # slower on busy cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        app()
    except ValueError as error:
        # Imported only now: it would double the time of `--help`.
        from muster.files.errors import InputError

        if not isinstance(error, InputError):
            raise
        for line in getattr(error, "lines", (str(error),)):
            typer.echo(f"muster: {line}", err=True)
        sys.exit(BAD_INPUT)
