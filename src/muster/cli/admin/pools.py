"""`muster pool`: who may use how much. Imports stay inside the commands so that help is quick."""

from typing import Annotated

import typer

from muster.cli.choices import Form
from muster.cli.connect import daemon
from muster.cli.group import QuickGroup
from muster.cli.options import Listed, Watched, Yes

pool = typer.Typer(
    name="pool",
    cls=QuickGroup,
    help="Pools: reservations, shares and limits. See docs/explanation/pools.md.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_LISTING = "muster pool list"

Named = Annotated[str, typer.Argument(metavar="POOL", help="Its name.")]
_AMOUNT = "[TYPE:]N"


@pool.command("list")
def list_(output: Listed = Form.TABLE, watch: Watched = False) -> None:
    """List the pools: what each may use of each device type, and what it uses."""
    from muster.cli.render.answers import as_json
    from muster.cli.render.pool_table import pool_table
    from muster.cli.watch import shown

    def answer() -> str:
        pools = client.pools()
        return as_json(pools) if output is Form.JSON else pool_table(pools, wide=output is Form.WIDE)

    with daemon(listing=_LISTING) as client:
        shown(answer, watch=watch)


@pool.command()
def show(name: Named, output: Listed = Form.TABLE) -> None:
    """Show one pool, and the jobs in it that are not over."""
    import time

    from muster.cli.render.answers import as_json
    from muster.cli.render.job_table import job_table
    from muster.cli.render.pool_table import named, pool_table
    from muster.wire.records import LIVE

    with daemon(listing=_LISTING) as client:
        found = named(client.pools(), name)
        if output is Form.JSON:
            typer.echo(as_json(found))
            return
        wide = output is Form.WIDE
        jobs = list(client.jobs(pool=name, statuses=LIVE))
        typer.echo(pool_table([found], wide=True))
        typer.echo(f"\n{job_table(jobs, time.time(), wide=wide)}" if jobs else "\nno live jobs")


@pool.command("set")
def set_(
    name: Named,
    parent: Annotated[
        str | None, typer.Option(metavar="POOL", help="The pool above. (default: cluster, the root)")
    ] = None,
    reservation: Annotated[
        list[str] | None,
        typer.Option(metavar=_AMOUNT, help="Devices it can always get back; once for each type."),
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(metavar=_AMOUNT, help="Its weight when idle devices are lent."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar=_AMOUNT, help="Devices it never goes above; `none` takes it away."),
    ] = None,
    shared: Annotated[
        bool | None,
        typer.Option("--shared/--private", help="Whether its users see and stop each other's jobs."),
    ] = None,
) -> None:
    """Make a pool, or change it: what is not given stays.

    Without a type an amount is for the cluster's only device type.

    Examples:
      muster pool set research --reservation 4 --share 2
      muster pool set vision --parent research --limit V100:8 --limit P100:none
    """
    from muster.cli.admin.pool_quotas import Amounts, changed_quotas
    from muster.cli.render.pool_table import pool_table

    amounts = Amounts(tuple(reservation or ()), tuple(share or ()), tuple(limit or ()))
    with daemon(listing=_LISTING) as client:
        before = next((each for each in client.pools() if each.name == name), None)
        types = {node.device_type for node in client.nodes() if node.device_type}
        quotas = changed_quotas(amounts, before, sorted(types))
        after = client.set_pool(name, parent=parent, quotas=quotas, shared=shared)
        typer.echo(pool_table([after], wide=True))


@pool.command()
def remove(name: Named, yes: Yes = False) -> None:
    """Remove a pool that has no jobs."""
    from muster.cli.exits import OTHER_FAILURE
    from muster.cli.render.terminal import agreed

    if not agreed(f"Remove the pool {name}?", yes=yes):
        raise typer.Exit(OTHER_FAILURE)
    with daemon(listing=_LISTING) as client:
        client.remove_pool(name)
        typer.echo(f"pool {name} is removed")
