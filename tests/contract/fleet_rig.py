"""Fleets with agents as processes of this machine, for the contract of executors.

A provider's rig brings the agent its own way: it gets the fleet's join token and returns what ends it.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from muster.executors.fleet.executor import FleetExecutor
from muster.executors.fleet.identities import Identities
from muster.files.cluster.classify import Classifier
from muster.model.cluster import Node
from muster.model.event import NodeAdded
from muster.store.store import open_store
from muster.wire.agents.join_token import JoinToken

LIMIT = 60.0
"""Seconds for an agent to call."""
LOST_AFTER = 30.0

End = Callable[[], None]
Bring = Callable[[JoinToken, str, Path], End]
"""Brings an agent to a node, with a folder of its own; returns what ends it, its tasks not."""


def by_hand(token: JoinToken, node: str, folder: Path) -> End:
    """Start an agent as a person does."""
    command = [sys.executable, "-m", "muster.agent", "--join", str(token), "--node", node]
    options = ["--folder", str(folder), "--devices", "4", "--virtual", "--advertise", "127.0.0.1"]
    with (folder.parent / f"{node}.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, *options], stdout=log, stderr=log, env=dict(os.environ), start_new_session=True
        )

    def end() -> None:
        process.kill()
        process.wait()

    return end


class FleetGround:
    """What outlives a driver: the store, the port, and the agent of one node."""

    def __init__(self, folder: Path, node: str, bring: Bring = by_hand) -> None:
        self._folder, self._name, self._bring = folder, node, bring
        self._store = open_store(str(folder / "muster.db"))
        self._port = 0
        self._node: Node | None = None
        self._last: FleetExecutor | None = None
        self._end: End = lambda: None

    def fleet(self) -> FleetExecutor:
        """Return the next driver's fleet; the last one's connections end without a word."""
        if self._last is not None:
            self._last.close()
        sock = socket.create_server(("127.0.0.1", self._port))
        self._port = int(sock.getsockname()[1])
        identities = Identities(self._store, ["localhost"], [f"127.0.0.1:{self._port}"])
        self._last = FleetExecutor(
            self._folder / "daemon",
            sock,
            identities,
            Classifier().classify,
            self._store.next_epoch(),
            lost_after=LOST_AFTER,
        )
        if self._node is None:
            self._node = self._first(self._last, identities.invite(self._name))
        else:
            self._last.expect([self._node])
        return self._last

    def _first(self, fleet: FleetExecutor, token: JoinToken) -> Node:
        """Bring the agent, and wait until its node is there."""
        fleet.listen(lambda: None)
        self._end = self._bring(token, self._name, self._folder / "agent")
        limit = time.monotonic() + LIMIT
        while time.monotonic() < limit:
            for report in fleet.collect():
                assert isinstance(report, NodeAdded)
                return report.node
            time.sleep(0.02)
        raise AssertionError(f"no agent of {self._name} has called")

    def close(self) -> None:
        """End the agent, and the tasks that it leaves."""
        self._end()
        for begun in self._folder.glob("agent/tasks/*/*/*/begun.json"):
            if not begun.with_name("ended.json").exists():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(json.loads(begun.read_bytes())["pid"], signal.SIGKILL)
        self._store.close()
