"""What a training script is told, and what the coordinator is told of its errors."""

import sys
import traceback
from collections.abc import Callable
from typing import Any

from muster.runtime.errors import ExcludedError, LostServerError
from muster.runtime.members.link import CoordinatorLink
from muster.runtime.settings import TaskSettings
from muster.wire.tasks.messages import Failed


class FailureReporter:
    """Reports uncaught errors: those of the user's code fail the job.

    Exclusion by the other members and a lost parameter server do not. Those of a newcomer do only if
    nobody trains without it.
    """

    def __init__(
        self,
        settings: TaskSettings,
        link: Callable[[], CoordinatorLink | None],
        before: Callable[..., Any],
        is_new: Callable[[], bool] = lambda: False,
    ) -> None:
        """`link`: the training's own, once it has begun; `before`: the hook to call afterwards;
        `is_new`: whether this task has not done a step of its own yet."""
        self._settings, self._link, self._before, self._is_new = settings, link, before, is_new

    def __call__(self, kind: type[BaseException], problem: BaseException, trace: Any) -> None:
        if isinstance(problem, Exception) and not isinstance(problem, ExcludedError | LostServerError):
            line = f"{kind.__name__}: {problem}"
            text = "".join(traceback.format_exception(kind, problem, trace))
            self._tell(Failed(self._settings.task, line, text, self._is_new()))
        self._before(kind, problem, trace)

    def _tell(self, message: Failed) -> None:
        """Send a failure before the process ends, even if training has not begun."""
        link = self._link()
        if link is None:
            link = CoordinatorLink(self._settings, "", lambda _: None)
            link.start()
        link.send(message)
        link.flush(5.0)


def say(text: str) -> None:
    """Print a line for the user on standard error."""
    print(f"muster: {text}", file=sys.stderr, flush=True)
