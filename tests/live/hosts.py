"""Several machines on one: hosts in network namespaces, each with an address and a link of its own.

The first host has the daemon, the others an agent each. A host's link can be cut and mended; nothing
else of the machine is separated, so files and processes can be looked at from outside.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.netns import BURST, QUEUE, Namespace, shaped_network
from tests.live.daemons import LONG, Daemon, environment, processes, until

RATE = 2000.0
"""Mbit/s of a link."""


@dataclass(slots=True)
class Host:
    """A machine with an agent."""

    name: str
    place: Namespace
    folder: Path
    port: str
    """Its end of the link on the switch."""
    switch: str
    agent: "subprocess.Popen[bytes] | None" = None

    @property
    def log(self) -> Path:
        """What its agent says."""
        return self.folder.with_suffix(".log")

    def cut(self) -> None:
        """Take its link down."""
        _ip("-n", self.switch, "link", "set", self.port, "down")

    def mend(self) -> None:
        """Bring its link up again."""
        _ip("-n", self.switch, "link", "set", self.port, "up")

    def shape(self, rate: float) -> None:
        """Give its link another rate each way, in Mbit/s."""
        ends = ((self.place.name, "link0"), (self.switch, self.port))
        for where, device in ends:
            how = ("rate", f"{rate}mbit", "burst", str(BURST), "latency", QUEUE)
            change = ("tc", "-n", where, "qdisc", "change", "dev", device, "root", "tbf", *how)
            subprocess.run(change, check=True, timeout=LONG)

    def start(self, *options: str, devices: int = 2) -> None:
        """Run its agent; `options`: `--join TOKEN` the first time."""
        command = [
            sys.executable,
            "-m",
            "muster.agent",
            "--folder",
            str(self.folder),
            "--node",
            self.name,
        ]
        command += ["--devices", str(devices), "--virtual", *options]
        with self.log.open("ab") as log:
            self.agent = subprocess.Popen(
                ("ip", "netns", "exec", self.place.name, *command),
                env=environment(self.folder.parent / "home"),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9 of the agent alone; its tasks keep running."""
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()

    def processes(self) -> dict[int, str]:
        """What runs there: the agent, shims and tasks."""
        return processes(str(self.folder))

    def end(self) -> None:
        """Kill whatever is left of it."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if self.agent is not None:
            self.agent.wait(LONG)
        until(lambda: not self.processes(), f"nothing of {self.name} is left")


@dataclass(slots=True)
class Lab:
    """A daemon and its hosts."""

    daemon: Daemon
    hosts: dict[str, Host]

    def invite(self) -> str:
        """A token with which one agent may join."""
        return str(self.daemon.client.invite().token)

    def start(self, *names: str, devices: int = 2) -> None:
        """Run agents on these hosts for the first time, until their nodes are up."""
        for name in names:
            self.hosts[name].start("--join", self.invite(), devices=devices)
        for name in names:
            self.await_state(name, "up")

    def state(self, name: str) -> str:
        """A node's state; empty: it is not there."""
        return next((node.state for node in self.daemon.client.nodes() if node.name == name), "")

    def await_state(self, name: str, *states: str) -> None:
        """Until a node is in one of these states."""
        host = self.hosts[name]
        until(
            lambda: self.state(name) in states,
            f"{name} is {' or '.join(states)}, not {self.state(name)}: "
            f"{host.log.read_text() if host.log.exists() else 'no agent'}",
        )


@contextmanager
def lab(
    folder: Path, names: tuple[str, ...], *options: str, rates: Sequence[float] = ()
) -> Iterator[Lab]:
    """A daemon with `options` on a host of its own, and hosts of these names without agents, with links
    of these rates (Mbit/s)."""
    with shaped_network([RATE, *(rates or [RATE] * len(names))]) as (first, *others):
        switch = f"{first.name.rpartition('-')[0]}-switch"
        daemon = Daemon(
            folder,
            *("--engine", "machines", "--agent-host", first.address, "--agent-port", "0"),
            *("--advertise", first.address, *options),
            devices=0,
            before=("ip", "netns", "exec", first.name),
        )
        hosts = {
            name: Host(name, place, folder / name, f"port{number}", switch)
            for number, (name, place) in enumerate(zip(names, others, strict=True), 1)
        }
        try:
            daemon.start()
            yield Lab(daemon, hosts)
        finally:
            for host in hosts.values():
                host.end()
            daemon.end()


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, timeout=LONG)
