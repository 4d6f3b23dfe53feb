"""What broke a gang: of several tasks that died, the one that died first of its own."""

import signal
from collections.abc import Sequence

from muster.model.task import TaskEnded

QUICK = 5.0
"""s between SIGTERM and SIGKILL for the tasks that are left of a broken gang: their peers are gone, and
what they have not saved they cannot save together any more."""
WINDOW = 10.0
"""s within which a peer's traceback follows from a task that was killed: timeouts of sockets and of
process groups that break are shorter, and a process group may take s to be gone."""


def first_cause(deaths: Sequence[TaskEnded], broken: float) -> TaskEnded:
    """Return the death that caused the others. `broken`: when the rest was told to stop, 0: never."""
    own = [each for each in deaths if not _follows(each, broken)] or list(deaths)
    first = min(own, key=_at)
    killed = [each for each in own if _was_killed(each) and _at(each) <= _at(first) + WINDOW]
    return min(killed, key=_at, default=first)


def _follows(death: TaskEnded, broken: float) -> bool:
    """Whether a task died because the gang was being stopped."""
    exited = death.exited
    if not broken or death.at <= broken or exited.oom:
        return False
    if exited.signal == signal.SIGTERM:
        return True
    # Only SIGTERM is sent at first: a SIGKILL by then came from somewhere else.
    killed = exited.signal == signal.SIGKILL and exited.at < broken + QUICK
    return exited.at > broken and not killed


def _was_killed(death: TaskEnded) -> bool:
    return death.exited.code is None or death.exited.oom


def _at(death: TaskEnded) -> float:
    return death.exited.at
