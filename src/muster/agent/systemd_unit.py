"""The systemd unit of an agent."""

import os
import shlex
import sys
from collections.abc import Sequence

UNIT = """\
# {where}
[Unit]
Description=Muster agent of {node}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart={command}
Restart=always
RestartSec=2
# It cannot be put right by another start: its identity or its options.
RestartPreventExitStatus=2
# By `systemctl stop`.
SuccessExitStatus=143
# Tasks outlive the agent, and the next one finds them.
KillMode=process
# It limits the memory and cores of tasks by cgroups of its own.
Delegate=yes
OOMScoreAdjust=-500
LimitNOFILE=65536

[Install]
WantedBy={target}
"""


def unit(node: str, arguments: Sequence[str]) -> str:
    """Return the unit that runs an agent with these arguments."""
    command = shlex.join([sys.executable, "-m", "muster.agent", *arguments]).replace("%", "%%")
    root = not os.geteuid()
    manage = "systemctl" if root else "systemctl --user"
    folder = "/etc/systemd/system" if root else "~/.config/systemd/user"
    return UNIT.format(
        node=node,
        command=command,
        where=f"{folder}/muster-agent.service; then: {manage} enable --now muster-agent",
        target="multi-user.target" if root else "default.target",
    )
