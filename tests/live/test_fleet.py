"""A daemon and agents, all real: jobs over several nodes, and everything of it killed once."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.daemons import until
from tests.live.fleets import LOST_AFTER, AgentNode, FleetDaemon
from tests.live.steps import Training

Nodes = Callable[..., list[AgentNode]]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FleetDaemon]:
    made = FleetDaemon(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def nodes(daemon: FleetDaemon) -> Iterator[Nodes]:
    """Makes nodes with agents that have joined."""
    made: list[AgentNode] = []

    def some(count: int, devices: int = 1) -> list[AgentNode]:
        fresh = [
            AgentNode(daemon, f"gpu{len(made) + place}", f"127.0.0.{len(made) + place + 1}", devices)
            for place in range(1, count + 1)
        ]
        made.extend(fresh)
        for each in fresh:
            each.start()
        return fresh

    try:
        yield some
        if daemon.runs:
            daemon.clear()
    finally:
        for each in made:
            each.end()


def test_a_job_runs_on_the_nodes_that_have_joined(daemon: FleetDaemon, nodes: Nodes) -> None:
    one, two = nodes(2)
    gang = daemon.sh(
        'echo "$RANK of $WORLD_SIZE on $MUSTER_NODE at $MUSTER_HOST"', name="gang", devices=2
    )
    assert gang.wait(60).status == "succeeded"
    said = sorted(piece.text for piece in gang.logs())
    assert said == [
        f"0 of 2 on {one.name} at {one.address}\n",
        f"1 of 2 on {two.name} at {two.address}\n",
    ]


def test_a_job_waits_for_nodes_and_starts_when_they_join(daemon: FleetDaemon, nodes: Nodes) -> None:
    waits = daemon.sh("true", name="early", devices=2)
    assert daemon.record("early").status == "pending"
    nodes(1)
    assert daemon.record("early").status == "pending"
    nodes(1)
    assert waits.wait(60).status == "succeeded"


def test_tasks_outlive_their_agent_and_are_reported_once(daemon: FleetDaemon, nodes: Nodes) -> None:
    (one,) = nodes(1)
    job = daemon.sh("echo begun >> runs; until test -e go; do sleep 0.05; done", name="long")
    ran = daemon.work("long") / "runs"
    until(ran.exists, "it runs")
    one.kill()
    (daemon.work("long") / "go").touch()
    until(lambda: not one.tasks(), "its task ends")
    one.start()
    assert job.wait(60).status == "succeeded"
    assert ran.read_text(encoding="utf-8") == "begun\n"
    assert daemon.record("long").losses == 0


def test_a_daemon_that_was_killed_finds_its_nodes_and_tasks(daemon: FleetDaemon, nodes: Nodes) -> None:
    nodes(2)
    line = "echo begun >> runs; until test -e go; do sleep 0.05; done; echo done"
    daemon.sh(line, name="long", devices=2)
    until(lambda: daemon.record("long").status == "running", "it runs")
    daemon.kill()
    daemon.start()
    assert {each.state for each in daemon.client.nodes()} == {"up"}
    (daemon.work("long") / "go").touch()
    found = daemon.client.handle("long")
    assert found.wait(60).status == "succeeded"
    assert (daemon.work("long") / "runs").read_text(encoding="utf-8") == "begun\n" * 2
    assert [piece.text for piece in found.logs()] == ["done\n"] * 2
    assert daemon.record("long").losses == 0


def test_a_node_returns_when_the_tasks_that_were_given_up_are_dead(
    daemon: FleetDaemon, nodes: Nodes
) -> None:
    """Its agent hangs for longer than the daemon waits: the job starts again, the old task dies first."""
    (one,) = nodes(1)
    job = daemon.sh("echo $$ >> runs; until test -e go; do sleep 0.05; done", name="long")
    ran = daemon.work("long") / "runs"
    until(lambda: ran.exists() and ran.read_text(encoding="utf-8"), "it runs")
    old = int(ran.read_text(encoding="utf-8"))
    one.signal(signal.SIGSTOP)
    daemon.await_node(one.name, "lost")
    assert f"silent for {LOST_AFTER:.0f} s" in daemon.node(one.name).why  # type: ignore[union-attr]
    os.kill(old, 0)  # it computes on, and its device is not given to anybody
    assert daemon.record("long").status == "pending"
    one.signal(signal.SIGCONT)
    daemon.await_node(one.name, "up")
    until(lambda: len(ran.read_text(encoding="utf-8").split()) == 2, "it runs again")
    with pytest.raises(ProcessLookupError):
        os.kill(old, 0)
    (daemon.work("long") / "go").touch()
    assert job.wait(60).status == "succeeded"


def test_a_node_that_says_it_leaves_is_emptied_and_gone(daemon: FleetDaemon, nodes: Nodes) -> None:
    one, two = nodes(2)
    two.signal(signal.SIGUSR1)
    daemon.await_node(two.name, "draining")
    found = daemon.node(two.name)
    assert found is not None
    assert "takes it back" in found.why
    two.signal(signal.SIGINT)
    assert two.await_end() == 0
    daemon.await_node(two.name, "gone")
    daemon.devices -= two.devices
    assert daemon.sh("echo $MUSTER_NODE", name="rest").wait(60).status == "succeeded"
    assert one.runs


def test_the_second_agent_of_a_node_is_told_so_in_one_line(daemon: FleetDaemon, nodes: Nodes) -> None:
    (one,) = nodes(1)
    twin = AgentNode(daemon, one.name, one.address)
    twin.folder = daemon.folder / "twin"
    try:
        twin.launch()
        daemon.devices -= twin.devices
        until(lambda: "refused" in twin.log.read_text(encoding="utf-8"), "it is refused")
        assert "has another agent" in twin.log.read_text(encoding="utf-8")
        assert daemon.node(one.name).connected  # type: ignore[union-attr]
    finally:
        twin.end()


@pytest.mark.slow
def test_a_training_grows_over_three_nodes_and_shrinks(daemon: FleetDaemon, nodes: Nodes) -> None:
    pytest.importorskip("torch")
    nodes(1)
    training = Training(daemon, "elastic", devices="1..3")
    training.await_workers(1)
    training.ahead()
    _, three = nodes(2)
    training.await_workers(3)
    reached = training.ahead()
    daemon.muster("node", "drain", three.name)
    training.await_workers(2)
    assert training.ahead() > reached
    daemon.muster("node", "resume", three.name)
    training.await_workers(3)
    training.ahead()
    record = daemon.record("elastic")
    training.finish()
    assert (record.failures, record.losses, record.live) == (0, 0, True)
