"""Workers that fail before their first step, below a daemon: the job that they join goes on."""

import sys
from pathlib import Path

import pytest

from tests.live.conftest import Make
from tests.live.daemons import LONG, Daemon, until

pytest.importorskip("torch")

SCRIPT = Path(__file__).with_name("scripts") / "fails_new.py"
SAID = {
    "before": "FileNotFoundError: [Errno 2] No such file or directory: '/scratch/vocabulary.txt'",
    "wrap": "KeyError: 'this node has another version'",
    "memory": "RuntimeError: ",
    "crash": "signal 6 (SIGABRT)",
}
"""What is told of each way to fail."""


@pytest.mark.slow
@pytest.mark.parametrize("where", SAID)
def test_a_newcomer_that_fails_leaves_the_job_alone(make: Make, where: str) -> None:
    daemon: Daemon = make(devices=2)
    daemon.start()
    given = (sys.executable, str(SCRIPT), "--where", where)
    handle = daemon.submit(*given, name="healthy", devices=1)
    until(lambda: _step(daemon), "it trains")
    assert daemon.muster("resize", "healthy", "1..2").returncode == 0

    # Three are tried, then it stays as it is, and says why.
    until(lambda: _tried(daemon) == ["worker-1", "worker-2", "worker-3"], "three newcomers were tried")
    until(lambda: "failed before their first step" in _shown(daemon), "the job says why")
    shown = _shown(daemon)
    assert "3 workers in a row failed before their first step: worker-3: " in shown
    assert SAID[where] in shown
    reached = _step(daemon)
    until(lambda: _step(daemon) > reached, "it trains on")
    record = daemon.record("healthy")
    assert (record.status, record.workers) == ("running", 1)
    assert (record.failures, record.losses) == (0, 0)

    (daemon.work("healthy") / "go").touch()
    ended = handle.wait(LONG)
    assert ended.status == "succeeded", ended.error
    assert _tried(daemon) == ["worker-1", "worker-2", "worker-3"], "no more were started"


def _step(daemon: Daemon) -> int:
    return daemon.record("healthy").step or 0


def _shown(daemon: Daemon) -> str:
    return daemon.muster("show", "healthy").stdout


def _tried(daemon: Daemon) -> list[str]:
    """Newcomers that were started, in order."""
    changes = [each for each in daemon.detail("healthy").changes if each.kind == "TaskOrdered"]
    return [each.text.split()[0] for each in changes][1:]
