"""How tasks end, in words, and who is to blame."""

import signal

from muster.daemon.gang.last_words import last_words
from muster.model.task import TaskExited
from muster.roster.roster import CLEAN_EXIT

CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS}
"""Signals that a program causes itself; others come from outside."""


def words(report: TaskExited) -> str:
    """Return how a task ended, in words; the roster knows `CLEAN_EXIT`."""
    if report.code == 0:
        return CLEAN_EXIT
    if report.error:
        return report.error
    if report.signal is not None:
        return _named(report.signal)
    return "an unknown end" if report.code is None else f"exit code {report.code}"


def is_fault(report: TaskExited) -> bool:
    """Whether the user's program is to blame, not a node or a signal from outside."""
    if report.signal is not None:
        return report.signal in CRASHES
    return report.code not in (0, None)


def blame(report: TaskExited, tail: str) -> str:
    """Return how a task failed: one line that says why, then the last lines of its log."""
    why = last_words(tail)
    said = f"{report.task.name} ended with {words(report)}{f': {why}' if why else ''}"
    return f"{said}\n{tail}" if tail else said


def failed(task: str, error: str, trace: str) -> str:
    """Return how a training failed, as its task told it: one line, then the traceback."""
    said = f"{task}: {error or last_words(trace)}"
    return f"{said}\n{trace}" if trace else said


def headline(text: str) -> str:
    """Return the line that says why."""
    return text.split("\n", 1)[0]


def _named(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
