"""Members that differ: who leaves, and what they are told."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from muster.runtime.errors import BadTrainingError, DivergedError, MinorityError
from muster.runtime.members.ballot import Vote, exchange
from muster.runtime.state.entries import CAUSES
from muster.runtime.state.guard import SOON, Guard, SealComparison, compare, differ, hardware
from muster.runtime.state.state import TrainingState


class Agreement:
    """One member's part in checking that all have the same state."""

    def __init__(self, state: TrainingState, device: torch.device) -> None:
        self._state, self._device = state, device
        self._guard = Guard(state)
        self._formation = 0
        self._holders: list[bool] = []
        self.tell: Callable[[str], None] = lambda _: None
        """Says to the user who left and why."""

    def begin(self, step: int, holds: bool, sharded: bool) -> None:
        """Begin the checks of a step."""
        self._guard.sharded = sharded
        self._guard.begin(step, holds)

    def opinion(self) -> dict[str, float]:
        """Return this member's part of a vote."""
        seal, seal_too = self._guard.seal()
        return {"seal": seal, "seal_too": seal_too, "hardware": hardware(self._device)}

    def check(self, votes: Sequence[Vote], crew: Any, holds: bool) -> None:
        """Compare the seals of a step; if they differ, everything, together with all members."""
        if crew.formation != self._formation:
            self._formation, self._guard.trusting, self._holders = crew.formation, False, []
        self._look_soon([bool(vote.seal) for vote in votes])
        if differ(votes):
            self._compare(crew, holds)

    def _look_soon(self, holders: list[bool]) -> None:
        """Look at everything at once if the holders of the state have changed; all members see that."""
        self._guard.soon = max(0, self._guard.soon - 1)
        if holders != self._holders:
            self._holders, self._guard.soon = holders, SOON

    def check_whole(self, crew: Any, holds: bool) -> None:
        """Compare the whole state before it is saved; a collective."""
        if crew.group is None or self._guard.trusting:
            return
        seal, seal_too = self._guard.seal_of_all() if holds else (0.0, 0.0)
        mine = Vote(seal=seal, seal_too=seal_too, hardware=hardware(self._device))
        if differ(exchange(crew.group, mine, crew.rank, crew.size)):
            self._compare(crew, holds)

    def _compare(self, crew: Any, holds: bool) -> None:
        """Find out who differs in what; the majority continues without the others."""
        found = compare(crew.group, crew.rank, crew.size, self._guard, holds)
        if not found.others:
            self._guard.trusting = True  # they differ by rounding, and will again
            return
        text = difference(found, crew.tasks, self._state.position.step)
        if not found.most:
            raise BadTrainingError(text)
        if crew.rank in found.others:
            raise DivergedError(text)
        if crew.rank == found.most[0]:
            self.tell(text)
        raise MinorityError(text)  # the others leave, and the step is redone


def difference(found: SealComparison, tasks: Sequence[str], step: int) -> str:
    """Say who differs from whom in what, and why that may be."""
    others = [tasks[rank] for rank in found.others]
    more = f" (and {found.more} more)" if found.more else ""
    what = f"{found.kind} {found.name}".removeprefix("setting ") + more
    if not found.most:
        return (
            f"{' and '.join(others)} have different states after step {step} and no majority to trust: "
            f"{what}. Likely, {CAUSES[found.kind]}. Checkpoints hold states that all agreed on"
        )
    return (
        f"{', '.join(others)} left after step {step}: its state differs from that of the other "
        f"{len(found.most)} workers, who continue: {what}. Likely, {CAUSES[found.kind]}"
    )
