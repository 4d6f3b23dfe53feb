"""How the end of a task is told, and whom it counts against."""

import signal
from dataclasses import replace

import pytest

from muster.daemon.gang.exits import blame, is_fault, words
from muster.model.job import Role
from muster.model.task import TaskExited, TaskId
from muster.roster.roster import CLEAN_EXIT

TASK = TaskId(1, 1, Role.WORKER, 3)


def exited(code: int | None = None, number: int | None = None, error: str = "") -> TaskExited:
    return TaskExited(TASK, 0.0, code, number, error=error)


@pytest.mark.parametrize(
    ("report", "text", "fault"),
    [
        (exited(0), CLEAN_EXIT, False),
        (exited(3), "exit code 3", True),
        (exited(number=signal.SIGSEGV), "signal 11 (SIGSEGV)", True),
        (exited(number=signal.SIGKILL), "signal 9 (SIGKILL)", False),
        (exited(number=signal.SIGTERM), "signal 15 (SIGTERM)", False),
        (exited(number=99), "signal 99", False),
        (exited(error="node n0 is lost"), "node n0 is lost", False),
        (exited(127, error="no such command"), "no such command", True),
        (exited(), "an unknown end", False),
        (
            replace(exited(number=signal.SIGKILL), oom=True, memory=2_000_000_000),
            "killed by the kernel: out of memory (limit 2 GB)",
            True,
        ),
        (
            replace(exited(1), oom=True, memory=64_000_000),
            "killed by the kernel: out of memory (limit 64 MB)",
            True,
        ),
        (
            replace(exited(number=signal.SIGKILL), oom=True),
            "killed by the kernel: out of memory (the machine has none left)",
            False,
        ),
    ],
)
def test_ends_in_words_and_whose_fault_they_are(report: TaskExited, text: str, fault: bool) -> None:
    assert words(report) == text
    assert is_fault(report) is fault


def test_blame_names_the_task_and_shows_its_last_lines() -> None:
    starved = replace(exited(1), oom=True, memory=10**9)
    assert blame(starved, "") == "worker-3 was killed by the kernel: out of memory (limit 1 GB)"
    refused = replace(exited(127, error="cannot use its folder /root: Permission denied"), begun=False)
    said = "worker-3 could not start: cannot use its folder /root: Permission denied"
    assert blame(refused, "") == said
    assert blame(exited(1), "") == "worker-3 ended with exit code 1"
    said = "worker-3 ended with exit code 1: ValueError: x\nsteps\nValueError: x"
    assert blame(exited(1), "steps\nValueError: x") == said
