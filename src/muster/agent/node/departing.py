"""A node that will be taken away: by whom, and when."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from muster.executors.local.shim import uptime
from muster.wire.agents.agent_messages import Departing

TAKEN = "its engine takes it back"


@dataclass(frozen=True, slots=True)
class Departure:
    """Told on every connection from now on, since the daemon may be another one."""

    at: float
    """When the node will be gone, in s since boot."""
    why: str

    def message(self) -> Departing:
        """Return what to tell the daemon now."""
        return Departing(max(0.0, self.at - uptime()), self.why)


def read_notice(folder: Path, grace: float) -> tuple[float, str]:
    """Return how long the engine leaves to the node, in s, and why it goes: from the file `notice` in
    the agent's folder ("20 preempted"), where the engine's script has left one before the signal."""
    with contextlib.suppress(OSError, ValueError):
        within, _, why = (folder / "notice").read_text(encoding="utf-8").strip().partition(" ")
        return max(0.0, float(within)), why[:200] or TAKEN
    return grace, TAKEN
