"""Muster on a real Ray cluster: what Ray lends is used, and what happens to Ray costs no work."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.conftest import MakeRay
from tests.engines.ray_cluster import RayCluster
from tests.engines.ray_lab import RayLab
from tests.engines.scripts import GANG, ONCE
from tests.live.daemons import LONG, MUSTER, environment, processes, until
from tests.live.steps import Training

pytest.importorskip("torch")

HELD = (
    "import ray,sys; ray.init(sys.argv[1], logging_level=40);"
    "print(ray.available_resources().get('GPU', 0))"
)


def test_a_job_runs_on_a_node_that_ray_lends(ray_lab: RayLab, on_ray: MakeRay) -> None:
    daemon = on_ray(ray_lab)
    daemon.start()
    daemon.await_nodes("r1", "r2")
    assert {(node.device_type, node.devices) for node in daemon.client.nodes()} == {("V100", 1)}
    assert free_devices(ray_lab) == 0, "other users of Ray find none of the devices free"
    handle = daemon.sh("echo on $MUSTER_NODE", name="one")
    assert handle.wait(LONG).status == "succeeded"
    assert next(iter(handle.logs("worker-0"))) in ("on r1", "on r2")
    assert not daemon.strays()


def test_without_a_ray_cluster_one_line_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [*MUSTER, "up", "--engine", "ray", "--address", "127.0.0.1:1", "--port", "0"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "no Ray cluster at 127.0.0.1:1" in line
    assert "ray start --head" in line


@pytest.mark.slow
def test_a_gang_of_torch_meets_over_two_nodes(ray_lab: RayLab, on_ray: MakeRay) -> None:
    daemon = on_ray(ray_lab)
    daemon.start()
    daemon.await_nodes("r1", "r2")
    script = daemon.work("gang") / "gang.py"
    script.write_text(GANG, encoding="utf-8")
    handle = daemon.submit(sys.executable, str(script), name="gang", devices=2)
    record = handle.wait(LONG)
    assert record.status == "succeeded", record.error
    assert sorted(handle.logs()) == ["1/worker-0 | 0 of 2: 3", "1/worker-1 | 1 of 2: 3"]
    assert {task.node for task in daemon.detail("gang").tasks} == {"r1", "r2"}


@pytest.mark.slow
def test_a_training_follows_nodes_that_come_and_are_drained(
    own_ray_lab: RayLab, on_ray: MakeRay
) -> None:
    lab = own_ray_lab
    daemon = started(lab, on_ray, "r1")
    training = Training(daemon, "follows", devices="1..3")
    training.await_workers(1)
    for count, name in enumerate(("r2", "r3"), start=2):
        lab.add(name, gpus=1)
        training.await_workers(count)
        training.ahead()
    (first,) = training.pids()["worker-0"]

    # Ray takes a node back: its worker leaves while the others train on.
    lab.drain("r3", within=60)
    training.await_workers(2)
    until(lambda: "r3" not in {node.name for node in daemon.client.nodes()}, "r3 has left")
    until(lambda: not processes_of(daemon, "r3"), "nothing is left on it")
    lab.remove("r3")
    training.ahead()
    training.finish()
    assert training.pids()["worker-0"] == [first], "the first worker was never restarted"
    record = daemon.record("follows")
    assert (record.failures, record.losses, record.preemptions) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_agent_comes_back_and_its_tasks_did_not_notice(
    ray_lab: RayLab, on_ray: MakeRay, how: signal.Signals
) -> None:
    daemon = on_ray(ray_lab)
    daemon.start()
    daemon.await_nodes("r1", "r2")
    jobs = [daemon.sh(ONCE, name=name) for name in ("left", "right")]
    for job in jobs:
        daemon.await_status(job.record().name, "running")
    before = daemon.agent_pid("r1")
    os.kill(before, how)
    until(lambda: daemon.agent_pid("r1") not in (0, before), "another agent runs")
    finish_once(daemon, "left", "right")


@pytest.mark.slow
def test_a_raylet_that_is_killed_and_restarted_costs_no_work(
    own_ray_lab: RayLab, on_ray: MakeRay
) -> None:
    lab = own_ray_lab
    daemon = started(lab, on_ray, "r1", "r2")
    training = Training(daemon, "robbed", devices=2)
    training.await_workers(2)
    training.ahead()
    agent = daemon.agent_pid("r2")
    lab.kill("r2")
    lab.remove("r2")
    training.ahead()
    lab.add("r2", gpus=1)
    until(lambda: free_devices(lab) == 0, "its devices are held again")
    training.ahead()
    assert daemon.agent_pid("r2") == agent
    training.finish()
    assert all(len(pids) == 1 for pids in training.pids().values()), "no worker was restarted"


@pytest.mark.slow
def test_a_node_that_dies_is_left_behind(own_ray_lab: RayLab, on_ray: MakeRay) -> None:
    lab = own_ray_lab
    daemon = started(lab, on_ray, "r1", "r2")
    training = Training(daemon, "bereft", devices="1..2")
    training.await_workers(2)
    training.ahead()
    daemon.kill_node("r2")
    training.await_workers(1)
    training.ahead()
    until(lambda: "r2" not in {node.name for node in daemon.client.nodes()}, "r2 has left")
    training.finish()


@pytest.mark.slow
def test_the_head_and_the_daemon_are_killed_and_the_training_goes_on(
    own_ray_lab: RayLab, on_ray: MakeRay
) -> None:
    lab = own_ray_lab
    daemon = started(lab, on_ray, "r1", "r2")
    training = Training(daemon, "alone", devices=2)
    training.await_workers(2)
    training.ahead()

    lab.kill("head", "gcs_server")
    daemon.kill()
    until(lambda: lab.is_dead("r1") and lab.is_dead("r2"), "raylets end without a head")
    for name in ("r1", "r2", "head"):
        lab.remove(name)
    training.ahead()

    # The daemon is back before Ray, and has its nodes.
    daemon.start()
    training.await_workers(2)
    lab.start_head()
    lab.add("r1", "r2", gpus=1)
    until(lambda: free_devices(lab) == 0, "the devices are held again")
    training.ahead()
    training.finish()
    assert all(len(pids) == 1 for pids in training.pids().values()), "no worker was restarted"
    finish_once(daemon, submit=True)


def started(lab: RayLab, on_ray: MakeRay, *nodes: str) -> RayCluster:
    """A daemon on these nodes, with a device each."""
    lab.add(*nodes, gpus=1)
    daemon = on_ray(lab, "--lost-after", "10s")
    daemon.start()
    daemon.await_nodes(*nodes)
    return daemon


def finish_once(daemon: RayCluster, *names: str, submit: bool = False) -> None:
    """Let jobs go to their end; each was started once, and leaves nothing behind."""
    if submit:
        names = (*names, "after")
        daemon.sh(ONCE, name="after")
    for name in names:
        (daemon.work(name) / "go").touch()
        assert daemon.client.handle(name).wait(LONG).status == "succeeded"
        assert len((daemon.work(name) / "starts").read_text().splitlines()) == 1
    until(lambda: not daemon.strays(), "no process is left")


def free_devices(lab: RayLab) -> float:
    """What Ray could give to somebody else."""
    done = subprocess.run(
        [sys.executable, "-c", HELD, lab.address], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def processes_of(daemon: RayCluster, node: str) -> list[str]:
    """What runs of a node's agent."""
    return list(processes(str(daemon.agent_folder(node))).values())
