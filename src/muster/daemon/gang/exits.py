"""How tasks end, in words, and who is to blame."""

import signal

from muster.daemon.gang.last_words import last_words
from muster.model.task import TaskExited
from muster.roster.roster import CLEAN_EXIT

CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS}
"""Signals that a program causes itself; others come from outside."""

UNITS = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3))
"""Of sizes, largest first."""


def words(report: TaskExited) -> str:
    """Return how a task ended, in words; the roster knows `CLEAN_EXIT`."""
    if report.code == 0:
        return CLEAN_EXIT
    if report.oom:
        return f"killed by the kernel: out of memory ({_limit(report.memory)})"
    if report.error:
        return report.error
    if report.signal is not None:
        return _named(report.signal)
    return "an unknown end" if report.code is None else f"exit code {report.code}"


def is_fault(report: TaskExited) -> bool:
    """Whether the user's program is to blame, not a node or a signal from outside."""
    if report.oom:
        return report.memory > 0  # it broke its own limit; else the machine's memory ran out
    if report.signal is not None:
        return report.signal in CRASHES
    return report.code not in (0, None)


def cause(report: TaskExited, tail: str) -> str:
    """Return why a task failed, in one line: the last words of its log, else how it ended."""
    return ("" if report.oom else last_words(tail)) or words(report)


def blame(report: TaskExited, tail: str) -> str:
    """Return how a task failed: one line that says why, then the last lines of its log."""
    why = "" if report.oom else last_words(tail)
    said = f"{report.task.name} {_verb(report)} {words(report)}{f': {why}' if why else ''}"
    return f"{said}\n{tail}" if tail else said


def _verb(report: TaskExited) -> str:
    if report.oom:
        return "was"
    return "ended with" if report.begun or not report.error else "could not start:"


def failed(task: str, error: str, trace: str) -> str:
    """Return how a training failed, as its task told it: one line, then the traceback."""
    said = f"{task}: {error or last_words(trace)}"
    return f"{said}\n{trace}" if trace else said


def headline(text: str) -> str:
    """Return the line that says why."""
    return text.split("\n", 1)[0]


def _limit(memory: int) -> str:
    """The limit that was exceeded, in the units of job files."""
    if not memory:
        return "the machine has none left"
    unit, factor = next((each for each in UNITS if memory >= each[1]), UNITS[-1])
    return f"limit {memory / factor:.4g} {unit}"


def _named(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
