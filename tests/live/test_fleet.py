"""A daemon and agents, all real: jobs over several nodes, and everything of it killed once."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.daemons import LONG, until
from tests.live.fleets import AgentNode, FleetDaemon
from tests.live.steps import Training

SILENCE = 2.0
"""Seconds after which a node is lost, where a test waits for that."""
UNTIL_GO = "echo $$ >> runs; until test -e go; do sleep 0.05; done; echo done"


class Fleet:
    """A daemon and its nodes gpu1, gpu2, ... at addresses of their own on loopback."""

    def __init__(self, folder: Path, lost_after: float = 60.0, host: str = "") -> None:
        """`host`: one address for all of them."""
        self._host = host
        here = ("--agent-host", host, "--advertise", host) if host else ()
        # Not one that judges speed: a busy machine would make it shrink trainings.
        self.daemon = FleetDaemon(folder, "--policy", "fifo", *here, lost_after=lost_after)
        self.nodes: list[AgentNode] = []

    def add(self) -> AgentNode:
        """A node with one device joins."""
        place = len(self.nodes) + 1
        node = AgentNode(self.daemon, f"gpu{place}", self._host or f"127.0.0.{place + 1}")
        self.nodes.append(node)
        node.start()
        return node

    def end(self) -> None:
        for node in self.nodes:
            node.end()
        self.daemon.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        fleet.daemon.start()
        fleet.add()
        fleet.add()
        yield fleet
    finally:
        fleet.end()


@pytest.fixture
def fleet(shared: Fleet) -> Iterator[Fleet]:
    """Two nodes of one device, for tests that leave them as they are."""
    yield shared
    shared.daemon.clear()
    until(lambda: not any(node.tasks() for node in shared.nodes), "nothing runs on the nodes")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Fleet]:
    """A daemon of the test's own, which soon gives up silent nodes."""
    fleet = Fleet(tmp_path, SILENCE)
    try:
        fleet.daemon.start()
        yield fleet
        fleet.daemon.clear()
    finally:
        fleet.end()


def runs(fleet: Fleet, name: str) -> list[int]:
    """The processes that a job has begun."""
    path = fleet.daemon.work(name) / "runs"
    return [int(each) for each in path.read_text(encoding="utf-8").split()] if path.exists() else []


def go(fleet: Fleet, name: str) -> None:
    (fleet.daemon.work(name) / "go").touch()


def test_a_gang_runs_over_the_nodes_that_have_joined(fleet: Fleet) -> None:
    line = 'echo "$RANK of $WORLD_SIZE on $MUSTER_NODE at $MUSTER_HOST"'
    gang = fleet.daemon.sh(line, name="gang", devices=2)
    assert gang.wait(60).status == "succeeded"
    said = "\n".join(gang.logs())
    for rank, node in enumerate(fleet.nodes[:2]):
        assert f"{rank} of 2 on {node.name} at {node.address}" in said


def test_a_job_waits_for_a_node_that_joins_and_the_node_leaves_again(fleet: Fleet) -> None:
    daemon = fleet.daemon
    early = daemon.sh("true", name="early", devices=3)
    assert daemon.record("early").status == "waiting"
    third = fleet.add()
    assert early.wait(60).status == "succeeded"
    third.signal(signal.SIGUSR1)
    daemon.await_node(third.name, "draining")
    shown = daemon.node(third.name)
    assert shown is not None
    assert "takes it back" in shown.why
    third.signal(signal.SIGINT)
    assert third.await_end() == 128 + signal.SIGINT
    daemon.await_node(third.name, "gone")
    daemon.devices -= third.devices


def test_tasks_outlive_their_agent_and_are_reported_once(fleet: Fleet) -> None:
    job = fleet.daemon.sh(UNTIL_GO, name="orphan")
    until(lambda: runs(fleet, "orphan"), "it runs")
    (node,) = [each for each in fleet.nodes if each.tasks()]
    node.kill()
    go(fleet, "orphan")
    until(lambda: not node.tasks(), "its task ends")
    node.start()
    assert job.wait(60).status == "succeeded"
    assert list(job.logs()) == ["1/worker-0 | done"]
    assert len(runs(fleet, "orphan")) == 1
    assert fleet.daemon.record("orphan").losses == 0


def test_a_daemon_that_was_killed_finds_its_nodes_and_tasks(fleet: Fleet) -> None:
    daemon = fleet.daemon
    daemon.sh(UNTIL_GO, name="long", devices=2)
    until(lambda: daemon.record("long").status == "running", "it runs")
    daemon.kill()
    daemon.start()
    assert {each.state for each in daemon.client.nodes()} == {"up"}
    go(fleet, "long")
    found = daemon.client.handle("long")
    assert found.wait(60).status == "succeeded"
    assert len(runs(fleet, "long")) == 2
    assert sorted(found.logs()) == ["1/worker-0 | done", "1/worker-1 | done"]
    assert daemon.record("long").losses == 0


def test_the_second_agent_of_a_node_is_told_so_in_one_line(fleet: Fleet) -> None:
    daemon, first = fleet.daemon, fleet.nodes[0]
    twin = AgentNode(daemon, first.name, first.address)
    twin.folder, twin.log = daemon.folder / "twin", daemon.folder / "twin.log"
    devices = daemon.devices
    try:
        twin.launch()
        until(lambda: "has another agent" in twin.log.read_text(encoding="utf-8"), "it is refused")
    finally:
        twin.end()
        daemon.devices = devices


def test_a_node_returns_when_the_tasks_that_were_given_up_are_dead(own: Fleet) -> None:
    """Its agent hangs for longer than the daemon waits; the job starts again once its old task died."""
    daemon, node = own.daemon, own.add()
    job = daemon.sh(UNTIL_GO, name="long")
    until(lambda: runs(own, "long"), "it runs")
    (old,) = runs(own, "long")
    node.signal(signal.SIGSTOP)
    daemon.await_node(node.name, "lost")
    shown = daemon.node(node.name)
    assert shown is not None
    assert "its agent has been silent" in shown.why
    os.kill(old, 0)  # it computes on, and its device is given to nobody
    assert daemon.record("long").status == "waiting"
    node.signal(signal.SIGCONT)
    daemon.await_node(node.name, "up")
    until(lambda: len(runs(own, "long")) == 2, "it runs again")
    with pytest.raises(ProcessLookupError):
        os.kill(old, 0)
    go(own, "long")
    assert job.wait(60).status == "succeeded"


@pytest.mark.slow
def test_a_training_grows_over_three_nodes_and_shrinks(own: Fleet) -> None:
    pytest.importorskip("torch")
    daemon = own.daemon
    own.add()
    training = Training(daemon, "elastic", devices="1..3")
    training.await_workers(1)
    training.ahead()
    _, third = own.add(), own.add()
    training.await_workers(3)
    reached = training.ahead()
    assert daemon.muster("node", "drain", third.name).returncode == 0
    training.await_workers(2)
    assert training.ahead() > reached
    assert daemon.muster("node", "resume", third.name).returncode == 0
    training.await_workers(3)
    training.ahead()
    record = daemon.record("elastic")
    training.finish()
    assert (record.failures, record.losses, record.live) == (0, 0, True)


GANG = """
import torch, torch.distributed as d
d.init_process_group("gloo")
total = torch.ones(1)
d.all_reduce(total)
print("sum", int(total))
d.destroy_process_group()
"""


@pytest.mark.slow
def test_everything_works_over_ipv6(tmp_path: Path) -> None:
    """Agents, tasks, the rendezvous of torch and the members of an elastic job."""
    pytest.importorskip("torch")
    fleet = Fleet(tmp_path, host="::1")
    try:
        fleet.daemon.start()
        fleet.add()
        training = Training(fleet.daemon, "elastic", devices="1..2")
        training.await_workers(1)
        fleet.add()
        training.await_workers(2)
        training.ahead()
        training.finish()
        assert {node.address for node in fleet.daemon.client.nodes()} == {"::1"}
        gang = fleet.daemon.submit(sys.executable, "-c", GANG, name="gang", devices=2)
        assert gang.wait(LONG).status == "succeeded", "\n".join(gang.logs())
        assert "\n".join(gang.logs()).count("sum 2") == 2
        fleet.daemon.clear()
    finally:
        fleet.end()
