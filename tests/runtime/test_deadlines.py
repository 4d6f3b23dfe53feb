"""A task hangs, or its node does: nobody waits for it longer than the plan's deadline allows."""

import signal
import time
from pathlib import Path

import pytest

from tests.runtime.scripts.jobs import LONG, Job

DEADLINE = 2.0
ENDLESS = ("--epochs", "100000", "--pace", "0.01")


def wait_without(job: Job, task: str) -> None:
    """Until the members go on without a task that would never come back, after a single change."""
    changes = len(job.history.changes)
    job._wait_for(lambda: task not in job.history.members, f"loss of {task}", LONG)
    change = job.history.changes[-1]
    assert (change.cause, change.lost) == ("failure", (task,))
    assert len(job.history.changes) == changes + 1


@pytest.mark.parametrize(("victim", "sync"), [("worker-0", "sharded"), ("worker-2", "ring")])
def test_a_stopped_worker(victim: str, sync: str, tmp_path: Path) -> None:
    with Job(tmp_path, *ENDLESS, workers=3, sync=sync, deadline=DEADLINE) as job:
        job.ahead(5)
        job.kill(victim, signal.SIGSTOP)
        wait_without(job, victim)
        job.ahead(5)
        job.end()


@pytest.mark.parametrize(("victim", "sync"), [("worker-0", "ring"), ("worker-2", "sharded")])
def test_nobody_waits_for_a_task_that_the_coordinator_knows_is_lost(
    victim: str, sync: str, tmp_path: Path
) -> None:
    """Its node is cut off: its sockets say nothing, and the deadline is far away."""
    with Job(tmp_path, *ENDLESS, workers=3, sync=sync, deadline=100 * LONG) as job:
        job.ahead(5)
        job.kill(victim, signal.SIGSTOP)
        job.give_up(victim)
        wait_without(job, victim)
        job.ahead(5)
        job.kill(victim)
        job.end()


def test_a_second_loss_while_the_others_meet_is_not_waited_for_either(tmp_path: Path) -> None:
    with Job(tmp_path, *ENDLESS, workers=4, deadline=100 * LONG) as job:
        job.ahead(5)
        for victim in ("worker-0", "worker-1"):
            job.kill(victim, signal.SIGSTOP)
        job.give_up("worker-2")  # alive: it must not go on beside the others
        job.give_up("worker-0")
        job.give_up("worker-1")
        job._wait_for(lambda: job.history.members == ("worker-3",), "the last one goes on", LONG)
        job.ahead(5)
        for victim in ("worker-0", "worker-1"):
            job.kill(victim)
        job.end()


def test_a_stopped_server(tmp_path: Path) -> None:
    where = Job(tmp_path, *ENDLESS, workers=2, servers=1, sync="dedicated", deadline=DEADLINE)
    with where as job:
        job.ahead(5)
        job.kill("server-0", signal.SIGSTOP)
        wait_without(job, "server-0")
        job.ahead(5)
        job.end()


def test_a_worker_whose_code_hangs(tmp_path: Path) -> None:
    """It still answers its peers, so it is alive; but it does not come to the meeting."""
    with Job(tmp_path, *ENDLESS, "--hang", "1000", workers=3, deadline=DEADLINE) as job:
        job.ahead(5)
        (tmp_path / "go.worker-1").touch()
        wait_without(job, "worker-1")
        job.ahead(5)
        job.end()


def test_without_a_coordinator_nobody_goes_on_without_a_silent_one(tmp_path: Path) -> None:
    """It may be on the other side of a cut network, where the coordinator is. Here it comes back."""
    with Job(tmp_path, *ENDLESS, workers=3, deadline=DEADLINE) as job:
        job.ahead(5)
        first = job.address("worker-0")
        job.stop_coordinator()
        job.kill("worker-2", signal.SIGSTOP)
        until = time.monotonic() + LONG
        while not job.ask(first, kind="formation")["leading"]:
            assert time.monotonic() < until
            time.sleep(0.05)  # between two questions: nobody tells of it while the coordinator is away
        job.kill("worker-2", signal.SIGCONT)
        while (told := job.ask(first, kind="formation"))["formation"] < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert told["members"] == ["worker-0", "worker-1", "worker-2"]
        job.start_coordinator()
        job.wait_formation(2, LONG)
        job.ahead(5)
        outcome = job.end()
    last = outcome.history.changes[-1]
    assert (last.members, last.cause) == (("worker-0", "worker-1", "worker-2"), "failure")
    assert len(outcome.history.lost) == 0
