"""`muster token`. Imports stay inside the commands so that help is quick."""

import time
from typing import Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.options import Listed, Printed, Yes, noun, option

token = noun("token", "API tokens: who may use the daemon, and as which user.")

_LISTING = "muster token list"

Named = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")]


@token.command("list")
def list_(output: Listed = "table") -> None:
    """List tokens, without their secrets: all for an administrator, otherwise your own."""
    from muster.cli.render.answers import as_json
    from muster.cli.render.table import table
    from muster.cli.render.words import clock

    with daemon(listing=_LISTING) as client:
        tokens, now = client.tokens(), time.time()
    if output == "json":
        typer.echo(as_json(tokens))
        return
    rows = [
        (
            each.name,
            each.user,
            each.role,
            clock(now - each.created),
            "never" if each.used is None else f"{clock(now - each.used)} ago",
        )
        for each in tokens
    ]
    typer.echo(table(("NAME", "USER", "ROLE", "AGE", "LAST USED"), rows, left=(0, 1, 2)))


@token.command()
def create(
    name: Named,
    user: Annotated[
        str | None,
        option(None, "Its user. (default: the token's name)", "--user", "-u", metavar="NAME"),
    ] = None,
    admin: Annotated[bool, option(None, "Grant administrator rights.", "--admin")] = False,
    output: Printed = "text",
) -> None:
    """Create a token and print its secret, which is never shown again.

    Its user sets MUSTER_API_TOKEN to it, and MUSTER_URL to the daemon's address.

    Example: muster token create laptop -u ada
    """
    from muster.cli.render.answers import as_json
    from muster.cli.render.terminal import hint

    with daemon(listing=_LISTING) as client:
        made = client.create_token(name, user, "admin" if admin else "user")
    if output == "json":
        typer.echo(as_json(made))
        return
    typer.echo(made.secret)
    hint(f"for {made.user} ({made.role}); not shown again: export MUSTER_API_TOKEN=...")


@token.command()
def revoke(name: Named, yes: Yes = False) -> None:
    """Revoke a token at once."""
    from muster.cli.render.terminal import confirm

    confirm(f"Revoke token {name}?", yes=yes)
    with daemon(listing=_LISTING) as client:
        client.revoke_token(name)
        typer.echo(f"token {name} revoked")
