"""`muster token`. Imports stay inside the commands so that help is quick."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.options import Listed, Printed, Yes, noun, option

if TYPE_CHECKING:
    from muster.wire.api.records import InvitationRecord, TokenRecord

token = noun("token", "Tokens of users and agents: who may use the daemon, who may be a node.")

_LISTING = "muster token list"
_OWNER = "owner"
"""The token that `muster up` leaves for its own user."""

Named = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")]
Agent = Annotated[bool, option(None, "A token with which an agent joins.", "--agent")]


@token.command("list")
def list_(
    agent: Annotated[bool, option(None, "Only tokens of agents.", "--agent")] = False,
    output: Listed = "table",
) -> None:
    """List tokens, without their secrets: all for an administrator, otherwise your own.

    Below them, the tokens with which agents join.
    """
    from muster.cli.render.answers import as_json

    with daemon(listing=_LISTING) as client:
        tokens = [] if agent else client.tokens()
        invitations = client.invitations() if agent or output != "json" else []
    if output == "json":
        typer.echo(as_json(invitations if agent else tokens))
        return
    if not agent:
        typer.echo(_token_table(tokens))
    if agent or invitations:
        typer.echo("" if agent else "\n", nl=False)
        typer.echo(_invitation_table(invitations))


def _token_table(tokens: "Sequence[TokenRecord]") -> str:
    from muster.cli.render.table import table
    from muster.cli.render.words import clock

    now = time.time()
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
    return table(("NAME", "USER", "ROLE", "AGE", "LAST USED"), rows, left=(0, 1, 2))


def _invitation_table(invitations: "Sequence[InvitationRecord]") -> str:
    from muster.cli.render.table import table
    from muster.cli.render.words import clock

    now = time.time()
    rows = [
        (
            each.name,
            each.node or "any",
            each.engine,
            f"{each.used} of {each.uses}",
            f"in {clock(each.expires - now)}" if each.expires > now else "expired",
            each.used_by or "-",
        )
        for each in invitations
    ]
    heading = ("AGENT TOKEN", "NODE", "ENGINE", "USED", "EXPIRES", "LAST USED BY")
    return table(heading, rows, left=(0, 1, 2, 5))


@token.command()
def create(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the token.")] = None,
    user: Annotated[
        str | None,
        option(None, "Its user. (default: the token's name)", "--user", "-u", metavar="NAME"),
    ] = None,
    admin: Annotated[bool, option(None, "Grant administrator rights.", "--admin")] = False,
    agent: Agent = False,
    node: Annotated[
        str | None,
        option(None, "The only node that may join, also if it did before.", metavar="NODE"),
    ] = None,
    uses: Annotated[int, option(None, "How many nodes may join.", min=1, max=10_000)] = 1,
    expires: Annotated[str, option(None, "How long it is good for.", metavar="TIME")] = "1h",
    output: Printed = "text",
) -> None:
    """Create a token and print its secret, which is never shown again.

    Its user sets MUSTER_API_TOKEN to it, and MUSTER_URL to the daemon's address. With --agent, prints
    what to run on the machine that shall be a node.

    Examples: muster token create laptop -u ada; muster token create --agent --node gpu1
    """
    from muster.cli.parse import seconds_of
    from muster.files.errors import InputError

    if agent:
        if name is not None or user is not None or admin:
            raise InputError(
                "token create --agent: takes neither a name nor a user; --node names a node"
            )
        _invite(node, uses, seconds_of("--expires", expires), output)
    elif name is None:
        raise InputError("token create: give a NAME for a user's token, or --agent for a node's")
    elif node is not None:
        raise InputError.at("--node", "requires --agent")
    else:
        _create(name, user, "admin" if admin else "user", output)


def _create(name: str, user: str | None, role: str, output: str) -> None:
    from muster.cli.render.answers import as_json
    from muster.cli.render.terminal import hint

    with daemon(listing=_LISTING) as client:
        made = client.create_token(name, user, role)
    if output == "json":
        typer.echo(as_json(made))
        return
    typer.echo(made.secret)
    hint(f"for {made.user} ({made.role}); not shown again: export MUSTER_API_TOKEN=...")


def _invite(node: str | None, uses: int, seconds: float, output: str) -> None:
    from muster.cli.render.answers import as_json
    from muster.cli.render.terminal import hint
    from muster.cli.render.words import clock

    with daemon(listing=_LISTING) as client:
        made = client.invite(node, uses=uses, seconds=seconds)
    if output == "json":
        typer.echo(as_json(made))
        return
    typer.echo(made.command)
    whom = made.node or ("one new node" if made.uses == 1 else f"{made.uses} new nodes")
    hint(
        f"for {whom}, within {clock(seconds)}; not shown again; revoke: muster token revoke {made.name}"
    )


@token.command()
def rotate(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Token of a user: gets another secret.")
    ] = None,
    jobs: Annotated[bool, option(None, "The secret behind the tokens of jobs.", "--jobs")] = False,
    authority: Annotated[
        bool, option(None, "The certificate authority of the agents.", "--authority")
    ] = False,
    at_once: Annotated[
        bool,
        option(None, "With --authority: refuse the old one now; all agents join again.", "--at-once"),
    ] = False,
    yes: Yes = False,
) -> None:
    """Replace a secret: a user's token, that of the jobs, or the authority of the agents.

    A token's old secret is refused at once. Live jobs keep their tokens until they end. Agents renew
    their certificates by themselves; until all have, the old authority is accepted too.

    Examples: muster token rotate owner; muster token rotate --jobs; muster token rotate --authority
    """
    from muster.cli.render.terminal import confirm
    from muster.files.errors import InputError

    if (name is not None) + jobs + authority != 1:
        raise InputError("token rotate: give one of NAME, --jobs and --authority")
    if at_once and not authority:
        raise InputError.at("--at-once", "requires --authority")
    if name is not None:
        _rotate_token(name)
        return
    if at_once:
        confirm("Every agent must join again, and its tasks are lost. Go on?", yes=yes)
    with daemon(listing=_LISTING) as client:
        done = client.rotate("authority" if authority else "jobs", at_once=at_once)
    left = f"; still with the old one: {', '.join(done.waiting)}" if done.waiting else ""
    typer.echo(f"{'the authority of the agents' if authority else 'the secret of jobs'} replaced{left}")


def _rotate_token(name: str) -> None:
    from muster.cli.render.terminal import hint

    with daemon(listing=_LISTING) as client:
        made = client.rotate_token(name)
    if name == _OWNER and _keep(made.secret):
        typer.echo("token owner replaced; this user's command line has the new one")
        return
    typer.echo(made.secret)
    hint(f"for {made.user} ({made.role}); not shown again: export MUSTER_API_TOKEN=...")


def _keep(secret: str | None) -> bool:
    """Write the owner's new secret to where `muster up` left the old one; False: it is elsewhere."""
    import os
    from dataclasses import replace

    from muster.client.connecting.settings import TOKEN, URL, kept_settings, write_settings

    kept = None if {URL, TOKEN} & set(os.environ) else kept_settings(needed=False)
    if kept is None or kept.token is None:
        return False
    write_settings(replace(kept, token=secret))
    return True


@token.command()
def revoke(name: Named, yes: Yes = False) -> None:
    """Revoke a token of a user or an agent's join token at once.

    Nodes that have joined stay; see muster node revoke.
    """
    from muster.cli.render.terminal import confirm

    confirm(f"Revoke token {name}?", yes=yes)
    with daemon(listing=_LISTING) as client:
        client.revoke_token(name)
        typer.echo(f"token {name} revoked")
