"""`muster token`: who may ask the daemon. Imports stay inside the commands so that help is quick."""

import time
from typing import Annotated

import typer

from muster.cli.choices import ListFormat, Output
from muster.cli.connect import daemon
from muster.cli.group import QuickGroup
from muster.cli.options import Listed, Printed, Yes

token = typer.Typer(
    name="token",
    cls=QuickGroup,
    help="Tokens: who may ask the daemon, and as whom.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_LISTING = "muster token list"

Named = Annotated[str, typer.Argument(metavar="NAME", help="The token's name.")]


@token.command("list")
def list_(output: Listed = ListFormat.TABLE) -> None:
    """List tokens, without their secrets: all of them for an administrator, else one's own."""
    from muster.cli.render.answers import as_json
    from muster.cli.render.table import table
    from muster.cli.render.words import clock

    with daemon(listing=_LISTING) as client:
        tokens, now = client.tokens(), time.time()
    if output is ListFormat.JSON:
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
        typer.Option("--user", "-u", metavar="NAME", help="Whose it is. (default: like the token)"),
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="For an administrator.")] = False,
    output: Printed = Output.TEXT,
) -> None:
    """Make a token, and print its secret: this once.

    Its user puts it into MUSTER_API_TOKEN, and the daemon's address into MUSTER_URL.

    Example: muster token create laptop -u ada
    """
    from muster.cli.render.answers import as_json
    from muster.cli.render.terminal import hint

    with daemon(listing=_LISTING) as client:
        made = client.create_token(name, user or name, "admin" if admin else "user")
    if output is Output.JSON:
        typer.echo(as_json(made))
        return
    typer.echo(made.secret)
    hint(f"for {made.user} ({made.role}); it is not shown again: export MUSTER_API_TOKEN=...")


@token.command()
def revoke(name: Named, yes: Yes = False) -> None:
    """Make a token invalid at once."""
    from muster.cli.exits import OTHER_FAILURE
    from muster.cli.render.terminal import agreed

    if not agreed(f"Revoke the token {name}?", yes=yes):
        raise typer.Exit(OTHER_FAILURE)
    with daemon(listing=_LISTING) as client:
        client.revoke_token(name)
        typer.echo(f"token {name} is revoked")
