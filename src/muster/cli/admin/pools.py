"""`muster pool`. Imports stay inside the commands so that help is quick."""

from typing import Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.options import DryRun, Listed, Watched, Yes, noun, option

pool = noun("pool", "Pools: reservations, shares and limits (docs/explanation/pools.md).")

_LISTING = "muster pool list"

Named = Annotated[str, typer.Argument(metavar="POOL", help="Name of the pool.")]
_AMOUNT = "[TYPE:]N"
_DEVICES = "[TYPE:]N|N%"


@pool.command("list")
def list_(output: Listed = "table", watch: Watched = False) -> None:
    """List pools: what each may use of each device type, and what it uses."""
    from muster.cli.render.pool_table import pool_table
    from muster.cli.watch import show_list

    with daemon(listing=_LISTING) as client:
        show_list(client.pools, pool_table, output, watch=watch)


@pool.command()
def show(name: Named, output: Listed = "table") -> None:
    """Show a pool and its active jobs."""
    import time

    from muster.cli.render.answers import as_json
    from muster.cli.render.job_table import job_table
    from muster.cli.render.pool_table import named, pool_rules, pool_table
    from muster.wire.api.records import LIVE

    with daemon(listing=_LISTING) as client:
        found = named(client.pools(), name)
        if output == "json":
            typer.echo(as_json(found))
            return
        wide = output == "wide"
        jobs = list(client.jobs(pool=name, statuses=LIVE))
        typer.echo(pool_table([found], wide=True))
        for line in pool_rules(found):
            typer.echo(line)
        typer.echo(f"\n{job_table(jobs, time.time(), wide=wide)}" if jobs else "\nNo active jobs.")


@pool.command("set")
def set_(
    name: Named,
    parent: Annotated[
        str | None, option(None, "Parent pool. (default: cluster, the root)", metavar="POOL")
    ] = None,
    reservation: Annotated[
        list[str] | None,
        option(None, "Devices it can always reclaim; once per type.", metavar=_DEVICES),
    ] = None,
    share: Annotated[
        list[str] | None, option(None, "Weight in sharing idle devices.", metavar=_AMOUNT)
    ] = None,
    limit: Annotated[
        list[str] | None,
        option(None, "Maximum number of devices; `none` removes it.", metavar=_DEVICES),
    ] = None,
    shared: Annotated[
        bool | None,
        option(None, "Whether its users see and stop each other's jobs.", "--shared/--private"),
    ] = None,
    allow: Annotated[
        list[str] | None,
        option(
            None,
            "User who may submit, or @group of this machine; repeatable; `everybody` allows all. "
            "Administrators always may.",
            metavar="USER|@GROUP",
        ),
    ] = None,
    max_priority: Annotated[
        str | None, option(None, "Highest priority of users' jobs; `none`: any.", metavar="N")
    ] = None,
    devices_per_user: Annotated[
        str | None, option(None, "Most devices of one user; `none`: no limit.", metavar="N")
    ] = None,
    policy: Annotated[
        str | None,
        option(
            None, "Policy of its jobs and the pools below; `none`: of the pool above.", metavar="NAME"
        ),
    ] = None,
    budget: Annotated[
        str | None,
        option(None, "Most device-hours in a calendar month; `none`: no limit.", metavar="HOURS"),
    ] = None,
    aim: Annotated[
        str | None,
        option(
            None,
            "What its policy aims at: balanced, mean, fair, makespan or per_device; `none`: as above.",
            metavar="AIM",
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Create or change a pool; what is not given stays unchanged.

    An amount without a type is for the cluster's only device type; a part of the devices there are,
    such as 25%, is for every type and follows the nodes that come and go. Who may submit, priorities
    and devices per user bind the pools below as well.

    Examples:
      muster pool set research --reservation 4 --share 2
      muster pool set lab --reservation 25% --limit 50%
      muster pool set research --reservation 8 --dry-run    who would end earlier or later
      muster pool set vision --parent research --limit V100:8 --limit P100:none
      muster pool set research --allow ada --allow @vision --devices-per-user 4
      muster pool set production --policy fifo
      muster pool set nightly --policy muster --aim makespan    the last job ends soonest
      muster pool set research --budget 5000    nothing more starts once they are used up
    """
    from muster.cli.admin.pool_quotas import changed_quotas, changed_rules, typed_changes
    from muster.cli.render.pool_table import pool_rules, pool_table

    with daemon(listing=_LISTING) as client:
        before = next((each for each in client.pools() if each.name == name), None)
        types = {node.device_type for node in client.nodes() if node.device_type}
        quotas = changed_quotas(before, sorted(types), reservation, share, limit)
        rules = changed_rules(allow, max_priority, devices_per_user, policy, budget, aim)
        if dry_run:
            from muster.cli.whatif.answer import dry_run as show_only

            given = {"parent": parent, "quotas": quotas, **rules}
            body = {field: value for field, value in given.items() if value is not None}
            amounts = {"reservation": reservation, "share": share, "limit": limit}
            typed = {"parent": parent, **amounts, "allow": allow, "max_priority": max_priority}
            typed |= {"devices_per_user": devices_per_user, "policy": policy}
            typed |= {"budget": budget, "aim": aim}
            show_only(client, {"pools": {name: body}}, typed_changes(name, typed))
            return
        after = client.set_pool(name, parent=parent, quotas=quotas, shared=shared, **rules)
        typer.echo(pool_table([after], wide=True))
        for line in pool_rules(after):
            typer.echo(line)


@pool.command()
def remove(name: Named, yes: Yes = False) -> None:
    """Remove a pool without jobs."""
    from muster.cli.render.terminal import confirm

    confirm(f"Remove pool {name}?", yes=yes)
    with daemon(listing=_LISTING) as client:
        client.remove_pool(name)
        typer.echo(f"pool {name} removed")
