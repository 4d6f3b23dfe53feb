"""`muster audit`. Imports stay inside the command so that help is quick."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.group import Commands
from muster.cli.options import ADMIN, Listed, option

if TYPE_CHECKING:
    from muster.client import Client

audit = Commands()

_LOOKED = 1_000
"""Entries in which other users are looked for."""


@audit.command("audit", rich_help_panel=ADMIN)
def show(
    user: Annotated[
        str | None, option(None, "Only what this user did.", "--user", "-u", metavar="NAME")
    ] = None,
    since: Annotated[
        str | None, option(None, "Only what was done within this time.", metavar="TIME")
    ] = None,
    limit: Annotated[
        int, option(None, "At most the last N.", "-n", min=1, max=10_000, metavar="N")
    ] = 100,
    output: Listed = "table",
) -> None:
    """Show who did what, when and from where: jobs, nodes, pools, limits, tokens, failed logins.

    For administrators.

    Examples:
      muster audit --since 1d
      muster audit -u ada -n 20
    """
    import time

    from muster.cli.parse import moment_of
    from muster.cli.render.answers import as_json
    from muster.cli.render.table import table
    from muster.cli.render.words import moment

    begin = 0.0 if since is None else moment_of("--since", since, time.time())
    with daemon() as client:
        found = client.audit(user=user, since=max(0.0, begin), limit=limit)
        if not found:
            _note_nothing(client, user, since)
    if output == "json":
        typer.echo(as_json(found))
        return
    rows = [
        (
            moment(each.at),
            each.user or "-",
            each.address or "local",
            each.act,
            each.target or "-",
            each.outcome,
            each.detail or "-",
        )
        for each in found
    ]
    heading = ("AT", "USER", "FROM", "ACT", "ON", "OUTCOME", "DETAIL")
    typer.echo(table(heading, rows, left=range(7)))


def _note_nothing(client: "Client", user: str | None, since: str | None) -> None:
    """Say that nothing matches, and whether the user is in the log at all: most likely misspelt."""
    from muster.cli.render.terminal import complain
    from muster.files.errors import did_you_mean

    if user is not None and not client.audit(user=user, limit=1):
        names = sorted({each.user for each in client.audit(limit=_LOOKED) if each.user})
        near = did_you_mean(user, names) or (f"; users in it: {', '.join(names)}" if names else "")
        complain(f"nothing by user {user!r} is in the audit log{near}")
    elif since is not None:
        complain("nothing in the audit log matches; try an earlier --since")
    else:
        complain("the audit log is empty")
