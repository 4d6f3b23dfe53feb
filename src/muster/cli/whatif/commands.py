"""`muster whatif`. Imports stay inside the command so that help is quick."""

from pathlib import Path
from typing import Annotated

from muster.cli.group import Commands
from muster.cli.options import JOBS, Printed, option

whatif = Commands()

CHANGES = "Changes"


@whatif.command("whatif", rich_help_panel=JOBS)
def what_if(
    policy: Annotated[str | None, option(CHANGES, "Another policy.", metavar="NAME")] = None,
    pool: Annotated[
        list[str] | None,
        option(
            CHANGES,
            "A pool's reservation, share, limit, parent, policy, aim or devices_per_user.",
            metavar="POOL.FIELD=VALUE",
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        option(CHANGES, "Nodes like a configuration set, or like a node.", metavar="NODES:KIND"),
    ] = None,
    drain: Annotated[
        list[str] | None, option(CHANGES, "Nodes that take no new tasks.", metavar="NODES")
    ] = None,
    submit: Annotated[
        list[Path] | None, option(CHANGES, "A job that is submitted.", metavar="FILE")
    ] = None,
    priority: Annotated[
        list[str] | None, option(CHANGES, "Another priority of a live job.", metavar="JOB=N")
    ] = None,
    at: Annotated[
        str | None,
        option(CHANGES, "When nodes and jobs come or go. (default: now)", metavar="TIME"),
    ] = None,
    by: Annotated[
        str | None, option(CHANGES, "When drained nodes must be empty.", metavar="TIME")
    ] = None,
    worlds: Annotated[
        int, option(None, "Futures to play on each side.", min=1, max=256, metavar="N")
    ] = 16,
    seed: Annotated[int, option(None, "Of what is drawn.", min=0, metavar="N")] = 0,
    snapshot: Annotated[
        Path | None,
        option(None, "Ask about a file of muster snapshot, without a daemon.", metavar="FILE"),
    ] = None,
    check: Annotated[bool, option(None, "Exit with 3 if some job would end later.", "--check")] = False,
    every: Annotated[bool, option(None, "Show jobs that end as before, too.", "--all", "-a")] = False,
    plot: Annotated[
        Path | None, option(None, "Draw when jobs run: .png, .svg or .pdf.", metavar="FILE")
    ] = None,
    output: Printed = "text",
) -> None:
    """Show what a change would do to the live jobs; nothing is changed.

    Their futures are played with and without it, with the same lengths, arrivals and losses of nodes
    drawn on both sides. Several changes are made together. Times are medians, intervals hold 80 %.

    Exit codes: 0 answered, 2 a change that cannot be made, 3 with --check if some job would end later
    in nine futures of ten, or never.

    Examples:
      muster whatif --policy tiresias
      muster whatif --pool research.reservation=32 --pool research.limit=none
      muster whatif --add 'gpu[17-20]:dgx1' --at 18:00
      muster whatif --drain gpu3 --by 30m --check
      muster whatif --submit job.yaml --priority 12=5
    """
    from datetime import datetime

    from muster.cli.whatif import answer
    from muster.cli.whatif.request import ClusterSeen, WhatIfOptions, requested, said
    from muster.files.errors import InputError

    options = WhatIfOptions(
        policy, pool or (), add or (), drain or (), submit or (), priority or (), at, by
    )
    if not options.any:
        raise InputError(
            "what shall change? Give --policy, --pool, --add, --drain, --submit or --priority"
        )
    if plot is not None:
        from muster.cli.whatif.plot import check_picture

        check_picture(plot)
    now = datetime.now().astimezone()
    if snapshot is not None:
        from muster.cli.whatif.offline import cluster_seen, what_if_offline
        from muster.files.snapshot import load_snapshot

        saved = load_snapshot(snapshot)
        changes = requested(options, cluster_seen(saved), now)
        with answer.progress() as told:
            report = what_if_offline(saved, changes, worlds, seed, told)
    else:
        from muster.cli.connect import daemon

        with daemon() as client:
            types = {node.device_type for node in client.nodes() if node.device_type} if pool else ()
            seen = ClusterSeen(client.pools(), sorted(types)) if pool else ClusterSeen()
            changes = requested(options, seen, now)
            report = answer.asked(client, changes, worlds, seed)
    answer.print_answer(report, said(options), json=output == "json", every=every, plot=plot)
    if check:
        answer.check(report)
