"""Watches that no device idles while a job that fits it waits."""

from dataclasses import dataclass, field

from muster.wire.api.records import JobRecord, NodeRecord
from tests.live.daemons import Daemon

CYCLES = 2
"""A device may idle for this many cycles while a job that fits waits."""
CHANGING = ("preempting", "stopping", "resizing", "migrating")
"""Statuses of jobs that are about to give something back."""
EXCUSED = ("waiting.held", "waiting.restart", "waiting.limit")
"""Codes of jobs that do not want to start just now."""


@dataclass
class IdleWatch:
    """Looks again and again; a wait that lasts over more cycles than allowed is an error."""

    daemon: Daemon
    _since: dict[int, int] = field(default_factory=dict)
    """The cycle at which each waiting job was first found to fit."""

    def restart(self) -> None:
        """Start over: the daemon was away."""
        self._since = {}

    def look(self) -> None:
        """Compare what waits with what is free.

        While devices are on their way to a gang, those that it already has idle rightly.
        """
        client = self.daemon.client
        if any(client.jobs(statuses=CHANGING)):
            self._since = {}
            return
        cycles = client.status().cycles
        free = sum(_usable(node) for node in client.nodes())
        waiting = client.jobs(statuses=("waiting",))
        fitting = {job.number: job for job in waiting if _fits(job, free)}
        # Asked last: a cycle in between may have started some.
        if client.status().cycles != cycles:
            return
        self._since = {number: self._since.get(number, cycles) for number in fitting}
        for number, since in self._since.items():
            job = fitting[number]
            if cycles - since > CYCLES:
                (self.daemon.folder / "idle.json").write_bytes(client.snapshot())
            assert cycles - since <= CYCLES, (
                f"{free} devices idle for {cycles - since} cycles while {job.name} waits for "
                f"{job.asked}: {job.code} {job.reason}"
            )


def _usable(node: NodeRecord) -> int:
    return node.free if node.state == "up" else 0


def _fits(job: JobRecord, free: int) -> bool:
    least = int(job.asked.split("..")[0])
    return job.code not in EXCUSED and least <= free
