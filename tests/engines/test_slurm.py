"""Muster on a real Slurm: what Slurm lends is used, and what Slurm takes back costs no work."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engines.scripts import GANG, ONCE
from tests.engines.slurm_cluster import SlurmCluster, host_of
from tests.engines.slurm_lab import SlurmLab, missing, slurm_lab
from tests.live.daemons import LONG, until
from tests.live.steps import Training

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[SlurmLab]:
    """Three nodes of one GPU each."""
    with slurm_lab(tmp_path / "slurm", nodes=3, gpus=1) as lab:
        yield lab


Make = Callable[..., SlurmCluster]


@pytest.fixture
def on_slurm(lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes daemons on the lab; in the end every allocation is given back and no process is left."""
    made: list[SlurmCluster] = []

    def one(*options: str) -> SlurmCluster:
        cluster = SlurmCluster(tmp_path / f"d{len(made)}", lab, *options)
        for name, text in {**lab.environ, "TMPDIR": str(cluster.agents)}.items():
            monkeypatch.setenv(name, text)
        made.append(cluster)
        return cluster

    try:
        yield one
        for cluster in made:
            assert cluster.stop() == 0
            assert not cluster.strays()
            cluster.give_back()
    finally:
        for cluster in made:
            cluster.end()


def test_a_job_runs_on_a_node_that_slurm_lends(lab: SlurmLab, on_slurm: Make) -> None:
    daemon = on_slurm("--nodes", "1..3", "--time", "1h")
    daemon.start()
    (node,) = daemon.await_nodes(1)
    handle = daemon.sh("echo on $MUSTER_NODE", name="one")
    assert handle.wait(LONG).status == "succeeded"
    assert list(handle.logs("worker-0")) == [f"on {node}"]
    (known,) = daemon.client.nodes()
    assert (known.device_type, known.devices) == ("v100", 1)
    assert known.rack == ("rack0" if host_of(node) in ("g001", "g002") else "rack1")
    assert len(lab.jobs()) == 1


@pytest.mark.slow
def test_a_gang_of_torch_meets_over_two_nodes(on_slurm: Make) -> None:
    daemon = on_slurm("--nodes", "2", "--time", "1h")
    daemon.start()
    nodes = daemon.await_nodes(2)
    script = daemon.work("gang") / "gang.py"
    script.write_text(GANG, encoding="utf-8")
    handle = daemon.submit(sys.executable, str(script), name="gang", devices=2)
    record = handle.wait(LONG)
    assert record.status == "succeeded", record.error
    assert sorted(handle.logs()) == ["1/worker-0 | 0 of 2: 3", "1/worker-1 | 1 of 2: 3"]
    assert sorted(task.node for task in daemon.detail("gang").tasks) == nodes


@pytest.mark.slow
def test_a_training_outlives_a_preemption_by_slurm(lab: SlurmLab, on_slurm: Make) -> None:
    daemon = on_slurm("--nodes", "2", "--time", "1h")
    daemon.start()
    daemon.await_nodes(2)
    training = Training(daemon, "robbed", devices="1..3")
    training.await_workers(2)
    training.ahead()
    (first,) = training.pids()["worker-0"]
    at = {task.task: task.node for task in daemon.detail("robbed").tasks}
    taken = at["worker-1"]
    other = ",".join(name for name in lab.names if name != host_of(at["worker-0"]))
    lab.slurm(
        "sbatch", "--partition=urgent", "--nodes=2", f"--nodelist={other}", "--exclusive", "--wrap=true"
    )
    training.await_workers(1)
    until(lambda: taken not in {node.name for node in daemon.client.nodes()}, "the node has left")
    until(lambda: not daemon.on(taken), "nothing is left on it")
    training.ahead()
    # The urgent job is over: a pilot comes back, and the training grows onto it.
    training.await_workers(2)
    training.finish()
    assert training.pids()["worker-0"] == [first], "the first worker was never restarted"
    record = daemon.record("robbed")
    assert (record.failures, record.losses, record.preemptions) == (0, 0, 0)


@pytest.mark.slow
def test_killed_agents_daemons_slurmd_and_slurmctld_cost_no_work(lab: SlurmLab, on_slurm: Make) -> None:
    daemon = on_slurm("--nodes", "2", "--time", "1h")
    daemon.start()
    nodes = daemon.await_nodes(2)
    training = Training(daemon, "steady", devices=2)
    training.await_workers(2)
    training.ahead()
    agent = daemon.agent_pid(nodes[0])
    os.kill(agent, signal.SIGKILL)
    until(lambda: daemon.agent_pid(nodes[0]) not in (0, agent), "another agent runs")
    lab.restart_controller()
    lab.kill(host_of(nodes[0]))
    training.ahead()
    lab.start_node(host_of(nodes[0]))
    daemon.kill()
    training.ahead()
    daemon.start()
    until(lambda: daemon.up() == nodes, "the nodes are found again")
    training.ahead()
    assert len(lab.jobs()) == 2, "no pilot was doubled"
    training.finish()
    assert all(len(each) == 1 for each in training.pids().values()), "no worker was restarted"


@pytest.mark.slow
def test_a_node_that_slurm_kills_is_replaced(lab: SlurmLab, on_slurm: Make) -> None:
    daemon = on_slurm("--nodes", "2", "--time", "1h")
    daemon.start()
    daemon.await_nodes(2)
    training = Training(daemon, "hit", devices="1..2")
    training.await_workers(2)
    training.ahead()
    gone = next(task.node for task in daemon.detail("hit").tasks if task.task == "worker-1")
    lab.slurm("scancel", "--signal=KILL", "--full", gone.rpartition("-")[2])
    until(lambda: gone not in {node.name for node in daemon.client.nodes()}, "the node has left")
    until(lambda: not daemon.on(gone), "nothing is left on it")
    training.await_workers(2)
    training.finish()


@pytest.mark.slow
def test_a_training_grows_over_nodes_that_slurm_lends_for_it_and_they_are_given_back(
    lab: SlurmLab, on_slurm: Make
) -> None:
    daemon = on_slurm(
        "--nodes", "1..3", "--time", "1h", "--engine-option", "idle=1s", "--interval", "1s"
    )
    daemon.start()
    daemon.await_nodes(1)
    training = Training(daemon, "grows", devices="1..3")
    training.await_workers(3)
    training.ahead()
    (first,) = training.pids()["worker-0"]
    assert len(lab.jobs()) == 3
    daemon.client.handle("grows").resize(1, 1)
    training.await_workers(1)
    until(lambda: len(lab.jobs()) == 1, "what nobody needs is given back")
    daemon.await_nodes(1)
    training.finish()
    assert training.pids()["worker-0"] == [first], "the first worker was never restarted"


@pytest.mark.slow
def test_a_training_outlives_its_allocations(lab: SlurmLab, on_slurm: Make) -> None:
    daemon = on_slurm("--nodes", "1", "--time", "2m", "--interval", "1s")
    daemon.start()
    (home,) = daemon.await_nodes(1)
    training = Training(daemon, "long", devices=1)
    training.await_workers(1)
    for _ in range(2):
        training.ahead()
        until(lambda last=home: daemon.up() not in ([], [last]), "another allocation has begun")  # type: ignore[misc]
        until(lambda last=home: last not in _names(daemon), "the old one is given back")  # type: ignore[misc]
        until(lambda last=home: not daemon.on(last), "nothing is left on it")  # type: ignore[misc]
        (home,) = daemon.await_nodes(1)
    training.await_workers(1)
    training.finish()
    record = daemon.record("long")
    assert (record.failures, record.losses, record.preemptions) == (0, 0, 0)


@pytest.mark.slow
def test_without_another_node_a_training_is_saved_in_time_and_resumes(
    tmp_path: Path, lab: SlurmLab, on_slurm: Make
) -> None:
    for name in lab.names[1:]:
        lab.slurm("scontrol", "update", f"nodename={name}", "state=drain", "reason=test")
    daemon = on_slurm("--nodes", "1", "--time", "1m", "--interval", "1s")
    daemon.start()
    (home,) = daemon.await_nodes(1)
    training = Training(daemon, "saved", devices=1)
    training.await_workers(1)
    training.ahead()
    until(lambda: home not in _names(daemon), "its time is over")
    (second,) = daemon.await_nodes(1)
    assert second != home
    training.await_workers(1)
    training.finish()
    record = daemon.record("saved")
    assert (record.failures, record.losses) == (0, 0)


@pytest.mark.slow
def test_a_daemon_that_stops_gives_idle_nodes_back_and_leaves_those_with_tasks(
    lab: SlurmLab, on_slurm: Make
) -> None:
    daemon = on_slurm("--nodes", "2", "--time", "1h")
    busy = _with_one_job(daemon)
    assert daemon.stop() == 0
    lab.until(lambda: list(lab.jobs()) == [busy], "the idle node is given back")
    _finish_once(daemon)


@pytest.mark.slow
def test_nodes_without_tasks_outlive_a_killed_daemon_only_for_a_while(
    lab: SlurmLab, on_slurm: Make
) -> None:
    daemon = on_slurm("--nodes", "2", "--time", "1h", "--engine-option", "away=2s")
    busy = _with_one_job(daemon)
    daemon.kill()
    lab.until(lambda: list(lab.jobs()) == [busy], "the idle node has given itself back")
    _finish_once(daemon)


def _with_one_job(daemon: SlurmCluster) -> int:
    """Start a daemon with two nodes and a job on one of them; the number of that node's pilot."""
    daemon.start()
    daemon.await_nodes(2)
    daemon.sh(ONCE, name="stays")
    daemon.await_status("stays", "running")
    (task,) = daemon.detail("stays").tasks
    return int(task.node.rpartition("-")[2])


def _finish_once(daemon: SlurmCluster) -> None:
    """The next daemon finds the job, which was started once."""
    daemon.start()
    (daemon.work("stays") / "go").touch()
    assert daemon.client.handle("stays").wait(LONG).status == "succeeded"
    assert len((daemon.work("stays") / "starts").read_text().splitlines()) == 1


def _names(daemon: SlurmCluster) -> set[str]:
    return {node.name for node in daemon.client.nodes()}
