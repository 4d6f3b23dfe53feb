"""Changes of members leave nothing behind in a survivor."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runtime.scripts.jobs import Job

ENDLESS = ("--epochs", "100000", "--pace", "0.005")
"""A little rest in each step: joiners start on the same cores."""
GROWTH = 20 << 20
"""Bytes that the survivor's memory may grow meanwhile: allocators keep some; a group that is never
freed has threads with stacks and buffers of its own, and shows as more."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a process holds."""

    threads: int
    descriptors: int
    memory: int
    """Bytes resident."""


def measure(pid: int) -> Use:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    threads, files = (len(list(Path(f"/proc/{pid}/{name}").iterdir())) for name in ("task", "fd"))
    return Use(threads, files, pages * os.sysconf("SC_PAGE_SIZE"))


def measure_at_rest(job: Job, pid: int) -> Use:
    """The least of some steps: what is answered or built this moment has a thread for that moment."""
    uses = []
    for _ in range(5):
        job.ahead(2)
        uses.append(measure(pid))
    return Use(
        min(use.threads for use in uses),
        min(use.descriptors for use in uses),
        min(use.memory for use in uses),
    )


@pytest.mark.parametrize("changes", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_resizes_leak_nothing(tmp_path: Path, changes: int) -> None:
    with Job(tmp_path, *ENDLESS, workers=2) as job:
        job.ahead(3)
        pid = job.pids["worker-0"]
        early = None
        for change in range(1, changes + 1):
            job.change(3 if change % 2 else 2)
            if change == 10:
                early = measure_at_rest(job, pid)
        late = measure_at_rest(job, pid)
        assert job.pids["worker-0"] == pid
        outcome = job.end()
    assert early is not None
    assert [c.cause for c in outcome.history.changes] == ["start"] + ["plan"] * changes
    assert late.threads <= early.threads
    assert late.descriptors <= early.descriptors
    assert late.memory < early.memory + GROWTH
