"""An ending that the coordinator has ordered while a training runs: the same on all members.

A step's ballot holds what each member was ordered; of several orders the latest counts, so that all
members judge the same epoch by the same rule, whenever each of them heard of it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from muster.ending import Ending, parse_ending
from muster.runtime.members.ballot import MemberStatus, Vote
from muster.wire.tasks.messages import UseEnding

NEVER = -1e300
"""A bound that no loss is below; a ballot has numbers only."""
Own = Ending | Callable[[float], bool] | None
"""What a script ends by: an ending, a condition of its own on an epoch's mean loss, or nothing."""


@dataclass(frozen=True, slots=True, order=True)
class GivenEnding:
    """What was ordered last, as numbers."""

    order: float = 0.0
    """Later ones are higher; 0: nothing was ordered, and the script's own holds."""
    bound: float = NEVER
    decrease: float = 0.0
    patience: float = 0.0

    @staticmethod
    def of(ordered: UseEnding) -> "GivenEnding":
        """Return an order as numbers."""
        if not ordered.until:
            return GivenEnding(ordered.order)
        ending = parse_ending(ordered.until)
        bound = NEVER if ending.bound is None else ending.bound
        return GivenEnding(ordered.order, bound, ending.decrease or 0.0, ending.patience)

    @staticmethod
    def told(row: Vote | MemberStatus) -> "GivenEnding":
        """Return what a member has told."""
        numbers = (row.until_bound, row.until_decrease, row.until_patience)
        return GivenEnding(row.until_order, *numbers) if row.until_order else GivenEnding()

    def newest(self, rows: Iterable[Vote]) -> "GivenEnding":
        """Return the latest of this and what members have told."""
        return max([self, *(GivenEnding.told(row) for row in rows)])

    def row(self) -> dict[str, float]:
        """Return it for a ballot."""
        if not self.order:
            return {}
        return {
            "until_order": self.order,
            "until_bound": self.bound,
            "until_decrease": self.decrease,
            "until_patience": self.patience,
        }

    def instead_of(self, own: Own) -> Own:
        """Return what ends the training: the order's ending (None: nothing does), or its own."""
        if not self.order:
            return own
        bound = None if self.bound == NEVER else self.bound
        if bound is None and not self.decrease:
            return None
        return Ending(bound, self.decrease or None, int(self.patience))
