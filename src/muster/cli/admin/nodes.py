"""`muster node`. Imports stay inside the commands so that help is quick."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.options import Listed, Watched, Yes, noun

if TYPE_CHECKING:
    from muster.wire.records import LeavingRecord, NodeRecord

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
    """List nodes, their devices (`.` free, `x` held) and the jobs on them."""
    from muster.cli.watch import show_list

    with daemon(listing=_LISTING) as client:
        show_list(client.nodes, node_table, output, watch=watch)


@node.command()
def drain(names: Names, by: By = None) -> None:
    """Place no new tasks on nodes: elastic jobs move off them, others finish.

    Example: muster node drain gpu3 --by 30m, then muster node list -w until its devices are free.
    Without --by, a deadline given before is withdrawn.
    """
    from datetime import datetime

    from muster.cli.admin.deadline import seconds_until

    within = None if by is None else seconds_until("--by", by, datetime.now().astimezone())
    with daemon(listing=_LISTING) as client:
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
    with daemon(listing=_LISTING) as client:
        typer.echo(node_table([client.resume(name) for name in names]))


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


def node_table(nodes: Sequence["NodeRecord"], *, wide: bool = False) -> str:
    import time

    from muster.cli.render.table import table
    from muster.cli.render.terminal import painted
    from muster.cli.render.words import when

    more = ("CORES", "MEMORY") if wide else ()
    ends = ("EMPTY",) if any(each.until is not None for each in nodes) else ()
    heading = ("NODE", "STATE", *ends, "TYPE", "DEVICES", "FREE", "MAP", *more, "JOBS")
    now = time.time()
    rows = [
        (
            each.name,
            painted(each.state),
            *((when(each.until, now),) if ends else ()),
            each.device_type or "CPU",
            str(each.devices),
            str(each.free),
            each.bitmap or "-",
            *((f"{each.cores:g}", f"{each.memory / 1e9:,.0f} GB") if wide else ()),
            ",".join(each.jobs) or "-",
        )
        for each in nodes
    ]
    text = (0, 1, *((2,) if ends else ()), 2 + len(ends), 5 + len(ends), len(heading) - 1)
    return table(heading, rows, left=text)


def leaving_lines(nodes: Sequence["NodeRecord"]) -> list[str]:
    """Say what becomes of the jobs on draining nodes, each job once."""
    found = {each.number: each for node in nodes for each in node.leaving}
    return [f"job {each.number} ({each.name}) {_fate(each)}" for each in found.values()]


def _fate(leaving: "LeavingRecord") -> str:
    import time

    from muster.cli.render.words import clock, when

    at = None if leaving.at is None else when(leaving.at, time.time())
    match leaving.how:
        case "moves":
            return "moves to other nodes live"
        case "ends":
            return "stays until it ends" if at is None else f"stays until it ends, about {at}"
        case "stays":
            return "has nowhere to move: it stays until other nodes have room or it ends"
        case "queues":
            return (
                f"has nowhere to move: it is checkpointed and goes back to the queue {at}, "
                "unless other nodes have room or it ends before"
            )
        case "restarts":
            return f"is checkpointed and moved {at}, unless it ends before"
        case _:
            lost = clock(leaving.lost or 0.0)
            return f"has no checkpoint: unless it ends before, it stops {at} and loses {lost} of work"
