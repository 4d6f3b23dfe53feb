"""What plays futures: follows the daemon's views, and answers questions about the last one."""

import time
import traceback
from collections.abc import Callable

from muster.core.planners.delta import ViewFollower
from muster.daemon.foresight.messages import Answered, AskedQuestion, RememberedPast, SeenView
from muster.foresight.forecaster import Forecaster
from muster.foresight.play import Present
from muster.policy.registry import POLICIES


class ForesightChild:
    """The state of the process: the present, and what was learnt of the past."""

    def __init__(
        self,
        remembered: RememberedPast,
        send: Callable[[Answered], None],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """`meanwhile`: called where a question yields, to take in what has come since."""
        self._follower = ViewFollower(0, 1)
        self._send, self._meanwhile = send, meanwhile
        self._now = 0.0
        self._yielding = False
        self.forecaster = Forecaster()
        self.forecaster.restore(remembered.since, remembered.jobs, remembered.kept)

    def take(self, message: SeenView | AskedQuestion) -> None:
        """Follow a view, or answer a question."""
        if isinstance(message, SeenView):
            self._now = message.now
            view = self._follower.follow(message.change)
            self.forecaster.follow(view, message.now, message.stopped)
        else:
            self._send(self._answered(message))

    def _answered(self, asked: AskedQuestion) -> Answered:
        begun = time.process_time()
        try:
            value = self._answer(asked)
        except Exception:  # whatever it is, it must reach who asked
            return Answered(asked.number, problem=traceback.format_exc(limit=-3))
        return Answered(asked.number, value, seconds=time.process_time() - begun)

    def _answer(self, asked: AskedQuestion) -> object:
        view = self._follower.view
        if view is None:
            raise ValueError("asked before a view was seen")
        present = Present(view, self._now, POLICIES[asked.policy], asked.memory)
        if not asked.yields or self._yielding:
            return asked.question(present, self.forecaster)
        self._yielding, self.forecaster.meanwhile = True, self._meanwhile
        try:
            return asked.question(present, self.forecaster)
        finally:
            self._yielding, self.forecaster.meanwhile = False, None
