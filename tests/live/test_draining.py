"""Draining a node that is in use: nobody loses work that need not be lost."""

from pathlib import Path

import pytest

from tests.live.conftest import Make
from tests.live.daemons import Daemon, until

WAITS = "until test -e go; do sleep 0.05; done"
TWO_NODES = """
configurations:
  box: {device: cpu, devices: 2, cores: 8, memory: 16GB}
nodes:
  n0: {configuration: box}
  n1: {configuration: box}
"""


def test_a_drain_lets_a_job_finish_and_a_deadline_sends_it_back_to_the_queue(make: Make) -> None:
    daemon: Daemon = make(devices=1)
    daemon.start()
    assert daemon.sh("true", name="before", application="short").wait(60).status == "succeeded"
    daemon.sh(WAITS, name="long", grace="1s")
    daemon.await_status("long", "running")
    (node,) = daemon.client.nodes()

    # Nobody can start there, however short it is believed to be: the long one keeps its device.
    done = daemon.muster("node", "drain", node.name)
    assert "(long) stays until it ends" in done.stdout
    daemon.sh("true", name="short", application="short")
    until(lambda: daemon.record("short").reason != "", "the short one is told why it waits")
    assert daemon.record("long").status == "running"

    # A deadline says what it costs, and is kept.
    done = daemon.muster("node", "drain", node.name, "--by", "2s")
    assert "(long) has no checkpoint: unless it ends before, it stops in" in done.stdout
    daemon.await_status("long", "waiting")
    (drained,) = daemon.client.nodes()
    assert (drained.state, drained.free, drained.jobs) == ("draining", 1, ())
    told = [each.text for each in daemon.detail("long").changes]
    assert any("preempted.drained" in text and "of work lost" in text for text in told), told

    assert daemon.muster("node", "resume", node.name).returncode == 0
    (daemon.work("long") / "go").touch()
    for name in ("long", "short"):
        assert daemon.client.handle(name).wait(60).status == "succeeded"


def test_a_training_moves_off_a_draining_node_without_a_restart(make: Make, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.live.steps import Training

    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(TWO_NODES)
    daemon: Daemon = make(devices=4, cluster=cluster)
    daemon.start()
    training = Training(daemon, "elastic", devices="1..2", locality="node")
    training.await_workers(2)
    reached = training.ahead()
    (home,) = (node.name for node in daemon.client.nodes() if node.jobs)
    done = daemon.muster("node", "drain", home, "--by", "10m")
    assert "(elastic) moves to other nodes live" in done.stdout

    def empty() -> bool:
        return all(not node.jobs for node in daemon.client.nodes() if node.name == home)

    until(empty, "the node is empty")
    training.await_workers(2)
    assert training.ahead() > reached
    record = daemon.record("elastic")
    assert (record.status, record.preemptions, record.losses) == ("running", 0, 0)
    training.finish()
