"""A node that will be taken away: by whom, and when."""

from dataclasses import dataclass

from muster.executors.local.shim import uptime
from muster.wire.agent_messages import Departing


@dataclass(frozen=True, slots=True)
class Departure:
    """Told on every connection from now on, since the daemon may be another one."""

    at: float
    """When the node will be gone, in s since boot."""
    why: str

    def message(self) -> Departing:
        """Return what to tell the daemon now."""
        return Departing(max(0.0, self.at - uptime()), self.why)
