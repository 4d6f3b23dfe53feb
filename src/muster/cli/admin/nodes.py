"""`muster node`. Imports stay inside the commands so that help is quick."""

from typing import Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.options import DryRun, Listed, Watched, Yes, noun

node = noun("node", "Nodes: the machines and their devices.")

_LISTING = "muster node list"

Names = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes.")]
By = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="When they must be empty: 30m from now, or at 14:30. "
        "Jobs still there are checkpointed and moved in time.",
    ),
]


@node.command("list")
def list_(output: Listed = "table", watch: Watched = False) -> None:
    """List nodes, their devices (`.` free, `x` held) and the jobs on them; why a node is out."""
    from muster.cli.render.node_table import node_table
    from muster.cli.watch import show_list

    with daemon(listing=_LISTING) as client:
        show_list(client.nodes, node_table, output, watch=watch)


@node.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")],
    output: Listed = "table",
) -> None:
    """Show a node: where it is, what it has, its tasks, how it is, why it is out.

    Example: muster node show gpu3
    """
    import time

    from muster.cli.render.answers import as_json
    from muster.cli.render.node_page import node_page

    with daemon(listing=_LISTING) as client:
        found = client.node(name)
    typer.echo(as_json(found) if output == "json" else node_page(found, time.time()))


@node.command()
def drain(names: Names, by: By = None, dry_run: DryRun = False) -> None:
    """Place no new tasks on nodes: elastic jobs move off them, others finish.

    Example: muster node drain gpu3 --by 30m, then muster node list -w until its devices are free.
    With --dry-run first: whom it would hold up.
    Without --by, a deadline given before is withdrawn.
    """
    from datetime import datetime

    from muster.cli.admin.deadline import seconds_until
    from muster.cli.render.node_table import leaving_lines, node_table

    within = None if by is None else seconds_until("--by", by, datetime.now().astimezone())
    with daemon(listing=_LISTING) as client:
        if dry_run:
            from muster.cli.whatif.answer import dry_run as show_only

            due = {} if within is None else {"by": datetime.now().timestamp() + within}
            drained = {"names": names, **due}
            when = "" if by is None else f" by {by}"
            show_only(client, {"drain": [drained]}, f"drain {', '.join(names)}{when}")
            return
        nodes = [client.drain(name, within=within) for name in names]
        if len(nodes) > 1:  # what was said of the first did not know of the others
            now = {each.name: each for each in client.nodes()}
            nodes = [now.get(each.name, each) for each in nodes]
    typer.echo(node_table(nodes))
    for line in leaving_lines(nodes):
        typer.echo(line)


@node.command()
def resume(names: Names) -> None:
    """Use drained nodes again."""
    from muster.cli.render.node_table import node_table

    with daemon(listing=_LISTING) as client:
        typer.echo(node_table([client.resume(name) for name in names]))


@node.command()
def remove(name: Annotated[str, typer.Argument(metavar="NODE", help="Name of a lost node.")]) -> None:
    """Drop a lost node, which will not come back.

    Example: muster node remove gpu3
    """
    with daemon(listing=_LISTING) as client:
        client.remove_node(name)
    typer.echo(f"node {name} removed")


@node.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NODE", help="Name of a node.")], yes: Yes = False
) -> None:
    """Refuse a node's agent from now on: its certificate is void and its tasks are lost.

    Drain it first if its jobs should move. Example: muster node revoke gpu3
    To let it join again: muster token create --agent --node gpu3
    """
    from muster.cli.render.terminal import confirm

    confirm(f"Revoke node {name}? Tasks that are still there are lost.", yes=yes)
    with daemon(listing=_LISTING) as client:
        client.revoke_node(name)
    typer.echo(f"node {name} revoked")
