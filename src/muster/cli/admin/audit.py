"""`muster audit`. Imports stay inside the command so that help is quick."""

from typing import Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.options import ADMIN, Listed, option

audit = typer.Typer(pretty_exceptions_enable=False)


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

    from muster.cli.parse import seconds_of
    from muster.cli.render.answers import as_json
    from muster.cli.render.table import table
    from muster.cli.render.words import moment

    begin = 0.0 if since is None else time.time() - seconds_of("--since", since)
    with daemon() as client:
        found = client.audit(user=user, since=max(0.0, begin), limit=limit)
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
