"""A daemon without devices of its own, and agents as processes that bring some."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from muster.wire.agents.join_token import JoinToken
from muster.wire.api.records import NodeRecord
from tests.live.daemons import Daemon, environment, processes, until

AGENT = (sys.executable, "-m", "muster.agent")


class FleetDaemon(Daemon):
    """`muster up --engine machines` on loopback."""

    def __init__(self, folder: Path, *options: str, lost_after: float = 60.0) -> None:
        """`lost_after`: s; longer than a restart takes on a busy machine."""
        where = ("--agent-host", "127.0.0.1", "--agent-port", "0")  # kept over restarts
        silence = ("--lost-after", f"{lost_after:g}s")
        super().__init__(folder, "--engine", "machines", *where, *silence, *options, devices=0)

    def invite(self, node: str) -> JoinToken:
        """A join token."""
        return JoinToken.parse(str(self.client.invite(node).token))

    def node(self, name: str) -> NodeRecord | None:
        """A node as the daemon shows it."""
        return next((each for each in self.client.nodes() if each.name == name), None)

    def await_node(self, name: str, state: str) -> None:
        """Until a node is in this state; "gone": it is none any more."""

        def reached() -> bool:
            found = self.node(name)
            return (found.state if found else "gone") == state

        until(reached, f"{name} is {state}")


class AgentNode:
    """A node of this machine: its agent, in a folder and at an address of its own."""

    def __init__(self, daemon: FleetDaemon, name: str, address: str, devices: int = 1) -> None:
        self.daemon, self.name, self.address, self.devices = daemon, name, address, devices
        self.folder = daemon.folder / f"agent-{name}"
        self.log = daemon.folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self, *more: str) -> None:
        """Start the agent, and return at once; the first time it joins."""
        join = () if self.folder.exists() else ("--join", str(self.daemon.invite(self.name)))
        offer = ("--devices", str(self.devices), "--virtual", "--advertise", self.address)
        command = (*AGENT, "--folder", str(self.folder), "--node", self.name, *offer, *join, *more)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=environment(self.daemon.home),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.daemon.devices += self.devices if join else 0

    def start(self, *more: str) -> None:
        """Start the agent, and return when the daemon counts on its node."""
        self.launch(*more)
        until(lambda: self._is_up() or not self.runs, f"{self.name} joins")
        assert self.runs, self.log.read_text(encoding="utf-8")

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _is_up(self) -> bool:
        found = self.daemon.node(self.name)
        return found is not None and found.state == "up" and bool(found.connected)

    def signal(self, number: int) -> None:
        """Send the agent a signal; nothing of it reaches its tasks."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def await_end(self) -> int:
        """Until the agent has ended by itself; its exit code."""
        assert self._process is not None
        return self._process.wait(60)

    def tasks(self) -> dict[int, str]:
        """Processes of its tasks, shims among them, and not the agent."""
        own = self._process.pid if self._process else 0
        return {pid: what for pid, what in processes(str(self.folder)).items() if pid != own}

    def end(self) -> None:
        """The end of a test, however it went."""
        if self.runs:
            self.signal(signal.SIGCONT)
            self.kill()
        for pid in self.tasks():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        limit = time.monotonic() + 30
        while self.tasks() and time.monotonic() < limit:
            time.sleep(0.02)
