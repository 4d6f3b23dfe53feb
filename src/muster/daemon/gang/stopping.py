"""How the tasks of a job are brought to an end: a word, a signal, SIGTERM, SIGKILL."""

import signal
from enum import StrEnum
from typing import TYPE_CHECKING

from muster.daemon.gang.hands import Hands, Task
from muster.roster.roster import Roster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.model.job import Job
    from muster.roster.acts import Act

AGAIN = 5.0
"""Seconds after which SIGKILL is sent again: a process that is in the kernel dies late."""
LINGER = 600.0
"""Seconds that workers have for whatever their script does after the training, once one of them is
done with it."""


class Goal(StrEnum):
    """What a gang is about to become."""

    RUN = "run"
    PREEMPT = "preempt"
    CANCEL = "cancel"
    FAIL = "fail"
    FINISH = "finish"
    VANISH = "vanish"
    """Its run is over already: what is left of it goes."""
    BEGIN_ANEW = "begin anew"
    """Stop all, to start all in other places."""


_GENTLY = (Goal.PREEMPT, Goal.CANCEL, Goal.BEGIN_ANEW)


class Stopping:
    """The part of a gang that ends its tasks."""

    job: "Job"

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self.tasks: dict[str, Task] = {}
        """By name: ordered, and not seen to end."""
        self.live = False
        """Whether it uses the runtime."""
        self.goal = Goal.RUN
        self.roster = Roster()
        self._stops = 0
        """Counts stops: a timer of an earlier one does nothing."""
        self._warned = False
        """SIGTERM was sent: whoever ends well from then on may have been stopped by it."""

    def _act(self, acts: "Iterable[Act]") -> None:
        raise NotImplementedError

    def _conclude(self) -> None:
        raise NotImplementedError

    def _stop(self, goal: Goal, *, kill: bool = False) -> None:
        """Bring all tasks to an end, gently first."""
        self.goal, self._warned = goal, False
        self._stops += 1
        stop, program = self._stops, self.job.program
        asks = goal in (Goal.PREEMPT, Goal.BEGIN_ANEW) and program.checkpoint_signal
        if kill:
            self._kill(stop)
        elif goal is Goal.FINISH and self.live:
            # They have said good-bye; what their script does now takes as long as it takes.
            self.hands.later(LINGER, lambda: self._terminate(stop))
        elif self.live and goal in _GENTLY:
            self._act(self.roster.stop(goal.value, leave=True))
            self.hands.later(program.grace, lambda: self._terminate(stop))
        elif asks:
            self._signal(signal.Signals[asks])
            self.hands.later(program.checkpoint_grace, lambda: self._terminate(stop))
        else:
            self._terminate(stop)
        self._conclude()

    def _hurry(self) -> None:
        """No worker is left: whatever else there is goes at once."""
        self._stops += 1
        self._terminate(self._stops)

    def _terminate(self, stop: int) -> None:
        if stop == self._stops and self.tasks:
            self._warned = True
            self._signal(signal.SIGTERM)
            self.hands.later(self.job.program.grace, lambda: self._kill(stop))

    def _kill(self, stop: int) -> None:
        if stop == self._stops and self.tasks:
            self._signal(signal.SIGKILL)
            self.hands.later(AGAIN, lambda: self._kill(stop))

    def _signal(self, number: int) -> None:
        for task in self.tasks.values():
            self.hands.signal(task.id, number)
