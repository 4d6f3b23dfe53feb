"""A daemon on a Slurm lab, and what must be true of both together."""

import contextlib
import os
import signal
from pathlib import Path

from tests.engines.ports import free_ports
from tests.engines.slurm_lab import SlurmLab
from tests.live.daemons import Daemon, processes, until


class SlurmCluster(Daemon):
    """`muster up --engine slurm`; its agents have their folders below the daemon's."""

    def __init__(self, folder: Path, lab: SlurmLab, *options: str) -> None:
        self.lab = lab
        self.agents = folder / "nodes"
        self.agents.mkdir(parents=True)
        super().__init__(
            folder,
            *("--engine", "slurm", "--partition", "gpu"),
            # The policy's own judgement would shrink trainings that a busy machine slows down.
            *("--policy", "fifo"),
            # The next daemon must be found where the last one was.
            *("--agent-host", "127.0.0.1", "--agent-port", str(free_ports(1)[0])),
            *options,
        )

    def up(self) -> list[str]:
        """The nodes that take work."""
        return sorted(node.name for node in self.client.nodes() if node.state == "up")

    def await_nodes(self, count: int) -> list[str]:
        """Until this many nodes are up; their names."""
        until(lambda: len(self.up()) == count, f"{count} nodes are up")
        return self.up()

    def agent_pid(self, node: str) -> int:
        """Of a node's agent; 0: it is just starting."""
        lock = self.agents / f"muster-{node}" / "agent.lock"
        return int(lock.read_text(encoding="ascii") or 0)

    def on(self, node: str) -> dict[int, str]:
        """Processes of a node: its agent, shims and tasks."""
        return processes(str(self.agents / f"muster-{node}"))

    def strays(self) -> dict[int, str]:
        """Processes of jobs: agents, and the pilots' shells, stay."""
        found = {**super().strays(), **processes(str(self.agents))}
        return {pid: what for pid, what in found.items() if not _serves(what)}

    def give_back(self) -> None:
        """Cancel what this daemon holds in Slurm, as the how-to says; then nothing of it is left."""
        self.lab.slurm("scancel", "--partition=gpu")
        self.lab.until(lambda: not self.lab.jobs(), "every allocation is given back")
        until(lambda: not processes(str(self.agents)), "no process is left on any node")

    def end(self) -> None:
        """The end of a test, however it went."""
        for pid in processes(str(self.agents)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().end()


def host_of(node: str) -> str:
    """Return Slurm's name of a node's machine."""
    return node.rpartition("-")[0]


def _serves(command: str) -> bool:
    return any(part in command for part in ("muster.agent", "slurm_script", "slurmstepd"))
