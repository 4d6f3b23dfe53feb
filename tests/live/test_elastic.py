"""Trainings that grow, shrink, lose workers and are preempted, with every step done once."""

import os
import signal

import pytest

from tests.live.conftest import LEND, Make
from tests.live.daemons import Daemon, until
from tests.live.steps import Training

pytest.importorskip("torch")


def test_a_training_grows_and_shrinks_while_it_trains(make: Make) -> None:
    daemon: Daemon = make(devices=2)
    daemon.start()
    training = Training(daemon, "elastic", devices="1..2")
    training.await_workers(2)
    training.ahead()

    # Another job comes, and takes one of its devices.
    other = daemon.sh("until test -e go; do sleep 0.05; done", name="other")
    training.await_workers(1)
    assert daemon.await_status("other", "running").devices == 1
    training.ahead()
    before = daemon.record("elastic")
    assert (before.resizes, before.live) == (1, True)

    # It goes, and the device comes back.
    (daemon.work("other") / "go").touch()
    assert other.wait(60).status == "succeeded"
    training.await_workers(2)
    training.ahead()

    # Its user wants less of it, then more again.
    assert "asks for 1 worker;" in daemon.muster("resize", "elastic", "1").stdout
    training.await_workers(1)
    training.ahead()
    assert daemon.muster("resize", "elastic", "2").returncode == 0
    training.await_workers(2)
    training.ahead()
    after = daemon.record("elastic")
    training.finish()

    assert after.resizes == 4
    assert after.generation == before.generation + 3
    assert after.pause > 0.0
    assert (after.preemptions, after.failures, after.losses) == (0, 0, 0)
    assert after.asked == "2"
    pids = training.pids()
    assert len(pids["worker-0"]) == 1, "its first worker was never restarted"
    assert len({each.pid for each in training.steps()}) == 4


def test_a_killed_worker_is_replaced_while_the_others_train_on(make: Make) -> None:
    daemon: Daemon = make(devices=2)
    daemon.start()
    training = Training(daemon, "robbed", devices=2)
    training.await_workers(2)
    reached = training.ahead()
    (survivor,), (victim,) = (training.pids()[task] for task in ("worker-0", "worker-1"))
    os.kill(victim, signal.SIGKILL)
    until(lambda: daemon.record("robbed").losses == 1, "its loss is known")
    until(lambda: len({each.pid for each in training.steps()}) == 3, "another takes its place")
    assert training.ahead() > reached
    record = daemon.record("robbed")
    assert (record.status, record.workers, record.failures) == ("running", 2, 0)
    training.finish()
    assert training.pids()["worker-0"] == [survivor]
    assert daemon.record("robbed").losses == 1


@pytest.mark.slow
def test_a_replacement_has_one_name_everywhere(make: Make) -> None:
    daemon: Daemon = make(devices=2)
    daemon.start()
    training = Training(daemon, "robbed", devices=2)
    training.await_workers(2)
    training.ahead()
    os.kill(training.pids()["worker-1"][0], signal.SIGKILL)
    until(lambda: "worker-2" in training.pids(), "the environment names the replacement worker-2")
    detail = daemon.detail("robbed")
    running = {task.task: task for task in detail.tasks if task.status == "running"}
    assert set(running) == {"worker-0", "worker-2"}
    assert running["worker-2"].log == "1/worker-2"
    texts = [change.text for change in detail.changes if change.kind == "TaskOrdered"]
    assert [text.split()[0] for text in texts] == ["worker-0", "worker-1", "worker-2"]
    shown = daemon.muster("show", "robbed").stdout
    assert "worker-2" in shown
    logs = daemon.data.rglob("worker-*.log")
    assert {path.name for path in logs} == {"worker-0.log", "worker-1.log", "worker-2.log"}
    assert daemon.muster("logs", "robbed", "worker-2").returncode == 0
    training.finish()


def test_a_preempted_training_resumes_where_it_was(make: Make) -> None:
    """It borrows the only device of the cluster, until a job of its owner comes."""
    daemon: Daemon = make(devices=1)
    daemon.start()
    daemon.client.set_pool(LEND, quotas={"cpu": {"reservation": 0}})
    training = Training(daemon, "guest", devices=1, pool=LEND)
    training.await_workers(1)
    reached = training.ahead(8)
    owner = daemon.sh("until test -e go; do sleep 0.05; done", name="owner")
    daemon.await_status("owner", "running")
    waiting = daemon.record("guest")
    assert (waiting.status, waiting.preemptions, waiting.devices) == ("waiting", 1, 0)
    assert waiting.reason
    stood = training.last()
    (daemon.work("owner") / "go").touch()
    assert owner.wait(60).status == "succeeded"
    training.await_workers(1)
    until(lambda: training.last() > stood, "it trains on")
    training.finish()
    first, second = dict.fromkeys(each.pid for each in training.steps())
    ends = max(each.step for each in training.steps() if each.pid == first)
    begins = min(each.step for each in training.steps() if each.pid == second)
    assert reached <= ends < begins <= ends + 1, "no step was done again, and none left out"
    record = daemon.record("guest")
    assert (record.preemptions, record.failures, record.losses) == (1, 0, 0)
