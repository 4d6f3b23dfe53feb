"""How much neighbours slow each other down (Xiao, seed 003, section 3.2; the network's as in Pollux).

Two jobs disturb each other by the narrowest thing they share: a switch, a socket, a node, or, if both
span several nodes, a node's network card. A job is slowed by its worst neighbour, not by the sum.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.model.slowdowns import Common


@dataclass(frozen=True, slots=True)
class Disturbance:
    """By how much a step slows (0.1: a tenth) beside a neighbour that shares this."""

    switch: float = 0.0
    socket: float = 0.0
    node: float = 0.0
    network: float = 0.0

    @property
    def any(self) -> bool:
        """Whether there is any."""
        return max(self.switch, self.socket, self.node, self.network) > 0.0

    def slowdown(self, beside: Iterable[Iterable[Common]]) -> float:
        """Return the factor by which neighbours slow a job, by what it shares with each."""
        return 1.0 + max((self._of(each) for shared in beside for each in shared), default=0.0)

    def _of(self, common: Common) -> float:
        costs = {Common.SWITCH: self.switch, Common.SOCKET: self.socket, Common.NODE: self.node}
        return costs.get(common, self.network)


UNDISTURBED = Disturbance()
