"""`muster node`. Imports stay inside the commands so that help is quick."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.options import Listed, Watched, noun

if TYPE_CHECKING:
    from muster.wire.records import NodeRecord

node = noun("node", "Nodes: the machines and their devices.")

_LISTING = "muster node list"

Names = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes.")]


@node.command("list")
def list_(output: Listed = "table", watch: Watched = False) -> None:
    """List nodes, their devices (`.` free, `x` held) and the jobs on them."""
    from muster.cli.watch import show_list

    with daemon(listing=_LISTING) as client:
        show_list(client.nodes, node_table, output, watch=watch)


@node.command()
def drain(names: Names) -> None:
    """Place no new tasks on nodes; running ones finish.

    Example: muster node drain gpu3, then muster node list -w until its devices are free.
    """
    with daemon(listing=_LISTING) as client:
        typer.echo(node_table([client.drain(name) for name in names]))


@node.command()
def resume(names: Names) -> None:
    """Use drained nodes again."""
    with daemon(listing=_LISTING) as client:
        typer.echo(node_table([client.resume(name) for name in names]))


def node_table(nodes: Sequence["NodeRecord"], *, wide: bool = False) -> str:
    from muster.cli.render.table import table
    from muster.cli.render.terminal import painted

    more = ("CORES", "MEMORY") if wide else ()
    heading = ("NODE", "STATE", "TYPE", "DEVICES", "FREE", "MAP", *more, "JOBS")
    rows = [
        (
            each.name,
            painted(each.state),
            each.device_type or "CPU",
            str(each.devices),
            str(each.free),
            each.bitmap or "-",
            *((f"{each.cores:g}", f"{each.memory / 1e9:,.0f} GB") if wide else ()),
            ",".join(each.jobs) or "-",
        )
        for each in nodes
    ]
    return table(heading, rows, left=(0, 1, 2, 5, len(heading) - 1))
