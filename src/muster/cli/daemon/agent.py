"""`muster agent`: the agent of this node. Quick to import."""

import os
import sys
from pathlib import Path
from typing import Annotated

from muster.cli.choices import Output
from muster.cli.group import Commands
from muster.cli.options import DAEMON, option

agents = Commands()

JOINING, OFFER, OPERATION = "Joining", "What the node offers", "Operation"
"""Groups of options in the help."""


@agents.command(rich_help_panel=DAEMON)
def agent(
    join: Annotated[
        str | None,
        option(JOINING, "Join token, or a file with it (or MUSTER_JOIN).", metavar="TOKEN|FILE"),
    ] = None,
    daemon: Annotated[
        list[str] | None,
        option(JOINING, "The daemon's address, if not the token's.", metavar="HOST:PORT"),
    ] = None,
    node: Annotated[
        str | None, option(JOINING, "Name of the node. (default: the host's)", metavar="NAME")
    ] = None,
    folder: Annotated[
        Path | None,
        option(JOINING, "The agent's folder. (default: by node, in the user's)", metavar="DIR"),
    ] = None,
    devices: Annotated[
        int | None,
        option(OFFER, "Devices to offer. (default: all GPUs, or one per core)", min=0, metavar="N"),
    ] = None,
    device_type: Annotated[str | None, option(OFFER, "Type of the devices.", metavar="TYPE")] = None,
    virtual: Annotated[bool, option(OFFER, "Make the devices of CPU cores.", "--virtual")] = False,
    advertise: Annotated[
        str | None,
        option(
            OFFER,
            "Address at which other nodes reach this one. (default: by route to the daemon)",
            metavar="ADDRESS",
        ),
    ] = None,
    ports: Annotated[
        str | None,
        option(OFFER, "Ports for its tasks. (default: 20000-31999)", metavar="FIRST-LAST"),
    ] = None,
    label: Annotated[
        list[str] | None, option(OFFER, "A label; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    rack: Annotated[str | None, option(OFFER, "The node's rack.", metavar="NAME")] = None,
    engine: Annotated[
        str | None, option(OFFER, "Who brought the agent here. (default: machines)", metavar="NAME")
    ] = None,
    grace: Annotated[
        float | None,
        option(
            OPERATION,
            "Seconds that SIGTERM leaves the node. (default: SIGTERM ends only the agent)",
            metavar="SECONDS",
        ),
    ] = None,
    away: Annotated[
        float | None,
        option(
            OPERATION,
            "End after this long without a daemon, if there is no task. (default: never)",
            metavar="SECONDS",
        ),
    ] = None,
    log_format: Annotated[Output, option(OPERATION, "Format of the agent's log.")] = "text",
    describe: Annotated[
        bool, option(OPERATION, "Print what the node would offer, and end.", "--describe")
    ] = False,
    systemd: Annotated[
        bool, option(OPERATION, "Print a systemd unit for this agent, and end.", "--systemd")
    ] = False,
) -> None:
    """Make this machine a node: run tasks for a daemon elsewhere.

    On the daemon's machine, `muster token create --agent` prints the command to run here.
    It joins once; later starts need no token. Tasks outlive the agent, and the next one finds them.

    Examples:
      muster agent --join mja1.eyJh...           join, and offer all GPUs
      muster agent                               once joined
      muster agent --describe                    see what would be offered
      muster agent --join TOKEN --systemd        join, and print a unit for systemd
    """
    given = {**locals(), "log_format": log_format if log_format != "text" else None}
    from muster.agent.command import words_of

    # Another program in this process: the agent stays small.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "muster.agent", *words_of(given)])
