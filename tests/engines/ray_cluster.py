"""A daemon on a Ray cluster, and what must be true of both together."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from muster.providers.ray.provider import BRIDGE
from tests.engines.ports import free_port
from tests.engines.ray_lab import RayLab
from tests.live.daemons import LONG, Daemon, processes, until, with_children


class RayCluster(Daemon):
    """`muster up --engine ray`; its agents have their folders below the daemon's."""

    def __init__(self, folder: Path, lab: RayLab, *options: str) -> None:
        self.lab = lab
        self.agents = folder / "agents"
        super().__init__(
            folder,
            *("--engine", "ray", "--address", lab.address),
            # The policy's own judgement would shrink trainings that a busy machine slows down.
            *("--policy", "fifo"),
            # One port for all its daemons, so that agents find the next.
            *("--agent-host", "127.0.0.1", "--agent-port", str(free_port())),
            *("--engine-option", f"folder={self.agents}"),
            *options,
        )

    def await_nodes(self, *names: str) -> None:
        """Until these nodes, and no others, are up."""

        def up() -> set[str]:
            return {node.name for node in self.client.nodes() if node.state == "up"}

        until(lambda: up() == set(names), f"{names} are up")

    def agent_folder(self, node: str) -> Path:
        """Where the agent of a node has its files."""
        (found,) = self.agents.glob(f"*/{node}")
        return found

    def agent_pid(self, node: str) -> int:
        """Of a node's agent; 0: it is just starting."""
        return int((self.agent_folder(node) / "agent.lock").read_text(encoding="ascii") or 0)

    def kill_node(self, node: str) -> None:
        """A machine's power fails: kill -9 of all that runs there, of Ray, the agent and its tasks."""
        self.lab.kill_all(node)
        for pid in with_children(processes(str(self.agent_folder(node)))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def strays(self) -> dict[int, str]:
        """Processes of jobs: agents, and the shells that wait for them, stay."""
        found = {**processes(str(self.agents)), **processes(str(self.data))}
        return {
            pid: what
            for pid, what in found.items()
            if not _serves(what) and not (self.runs and pid == self.pid)
        }

    def end(self) -> None:
        """The end of a test: the agents go, too, and Ray has its devices back."""
        for folder in self.agents.glob("*"):
            words = ("--address", self.lab.address, "--fleet", folder.name, "--release")
            subprocess.run([*BRIDGE, *words], capture_output=True, check=False, timeout=LONG)
        for pid in processes(str(self.agents)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().end()


def _serves(command: str) -> bool:
    return any(part in command for part in ("muster.agent", "muster.providers.ray", "ray::"))
