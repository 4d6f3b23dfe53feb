"""Machines of their own, with links that break: jobs over several hosts lose nothing."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.daemon.gang.steer import DEADLINE
from muster.model.task import LEASE
from support.netns import NoNetworkError, check
from tests.live.daemons import until
from tests.live.hosts import Lab, lab
from tests.live.steps import Training

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

NAMES = ("gpu1", "gpu2", "gpu3")
LOST_AFTER, SHORT = "6s", 3.0
"""Silence after which a node is lost, and s of a shorter one."""
UNTIL_GO = "echo $$ >> runs; until test -e go; do sleep 0.1; done"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Lab]:
    try:
        check()
    except NoNetworkError as problem:
        pytest.skip(str(problem))
    with lab(tmp_path, NAMES, "--lost-after", LOST_AFTER, "--policy", "fifo") as made:
        yield made


def node_of(pid: int) -> str:
    """The node that a task was told it runs on."""
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(
        each.partition(b"=")[2].decode() for each in environ if each.startswith(b"MUSTER_NODE=")
    )


def test_a_gang_meets_over_two_hosts(hosts: Lab) -> None:
    """DDP, with each process on a host of its own: MASTER_ADDR and the interface are right."""
    hosts.start("gpu1", "gpu2", devices=1)
    line = (
        "import os, torch, torch.distributed as d; d.init_process_group('gloo');"
        "t = torch.ones(1); d.all_reduce(t);"
        "print('sum', int(t), os.environ['MUSTER_NODE'], os.environ['GLOO_SOCKET_IFNAME']);"
        "d.destroy_process_group()"  # torch may abort at the exit of a process that has one
    )
    job = hosts.daemon.submit(sys.executable, "-c", line, name="ddp", devices=2)
    assert job.wait(120).status == "succeeded", hosts.daemon.muster("logs", "ddp").stdout
    said = hosts.daemon.muster("logs", "ddp").stdout
    assert "sum 2 gpu1 link0" in said
    assert "sum 2 gpu2 link0" in said


def test_an_elastic_job_grows_over_hosts_and_shrinks_off_one_that_drains(hosts: Lab) -> None:
    hosts.start("gpu1", devices=1)
    training = Training(hosts.daemon, "elastic", devices="1..3")
    training.await_workers(1)
    training.ahead()
    hosts.start("gpu2", "gpu3", devices=1)
    training.await_workers(3)
    training.ahead()
    assert hosts.daemon.muster("node", "drain", "gpu1").returncode == 0
    training.await_workers(2)
    training.ahead()
    training.finish()
    record = hosts.daemon.record("elastic")
    assert (record.preemptions, record.losses, record.failures) == (0, 0, 0)


def test_a_short_cut_costs_nothing_but_time(hosts: Lab) -> None:
    """Shorter than the silence after which a node is lost, and than the survivors' patience."""
    hosts.start("gpu1", "gpu2", devices=1)
    training = Training(hosts.daemon, "elastic", devices="2..2")
    training.await_workers(2)
    training.ahead()
    hosts.hosts["gpu2"].cut()
    time.sleep(SHORT)  # what is tested: a cut of this length
    hosts.hosts["gpu2"].mend()
    training.ahead()
    training.finish()
    assert hosts.daemon.record("elastic").losses == 0


def test_a_host_that_is_cut_off_does_nothing_that_counts_and_returns_clean(hosts: Lab) -> None:
    hosts.start(*NAMES, devices=1)
    training = Training(hosts.daemon, "elastic", devices="1..3")
    training.await_workers(3)
    training.ahead()
    far = hosts.hosts["gpu3"]
    task = next(each.pid for each in training.steps() if node_of(each.pid) == "gpu3")
    far.cut()
    hosts.await_state("gpu3", "lost")
    training.await_workers(2)
    training.ahead(20)
    assert Path(f"/proc/{task}").exists(), "a cut host is not reached by anybody"
    assert not [each for each in training.steps()[-10:] if each.pid == task]
    assert next(n.free for n in hosts.daemon.client.nodes() if n.name == "gpu3") == 0
    far.mend()
    hosts.await_state("gpu3", "up")
    assert not Path(f"/proc/{task}").exists(), "what was given up is gone before the node is used"
    training.await_workers(3)
    training.ahead()
    training.finish()


def test_a_host_that_never_returns_is_done_without(hosts: Lab) -> None:
    hosts.start("gpu1", "gpu2", devices=1)
    training = Training(hosts.daemon, "elastic", devices="1..2")
    training.await_workers(2)
    training.ahead()
    hosts.hosts["gpu1"].cut()  # that of the most senior worker
    training.await_workers(1)
    training.ahead()
    training.finish()
    assert hosts.state("gpu1") == "lost"


def test_survivors_of_a_cut_go_on_as_soon_as_the_daemon_knows(hosts: Lab) -> None:
    """Not at the training's own deadline, until which a cut link says nothing to them."""
    hosts.start(*NAMES, devices=1)
    training = Training(hosts.daemon, "elastic", devices="1..3")
    training.await_workers(3)
    training.ahead()
    hosts.hosts["gpu3"].cut()
    cut = time.monotonic()
    hosts.await_state("gpu3", "lost")
    training.ahead()
    assert time.monotonic() - cut < DEADLINE
    training.finish()


def test_a_job_that_is_cut_off_while_it_grows_goes_on_from_where_it_was(hosts: Lab) -> None:
    hosts.start("gpu1", "gpu2", devices=1)
    training = Training(hosts.daemon, "elastic", devices="1..3")
    training.await_workers(2)
    training.ahead()
    (first,) = training.pids()["worker-0"]
    hosts.start("gpu3", devices=1)
    until(lambda: hosts.daemon.record("elastic").status == "resizing", "it grows")
    hosts.hosts["gpu3"].cut()
    hosts.await_state("gpu3", "lost")
    training.await_workers(2)
    training.ahead()
    training.finish()
    assert training.pids()["worker-0"] == [first], "the first worker was never restarted"


def test_a_task_that_may_run_once_is_dead_before_it_runs_again(hosts: Lab) -> None:
    hosts.start("gpu1", "gpu2", devices=1)
    job = hosts.daemon.sh(UNTIL_GO, name="once", at_most_once=True)
    runs = hosts.daemon.work("once") / "runs"
    until(lambda: runs.exists() and bool(runs.read_text()), "it runs")
    first = int(runs.read_text())
    where = node_of(first)
    hosts.hosts[where].cut()
    hosts.await_state(where, "lost")
    os.kill(first, 0)  # nobody reaches it; its own node ends it when its lease is over
    limit = time.monotonic() + 3 * LEASE
    while len(runs.read_text().split()) == 1 and time.monotonic() < limit:
        if Path(f"/proc/{first}").exists():
            assert hosts.daemon.record("once").status != "running"
        time.sleep(0.1)  # between two looks: what is tested is that nothing happens
    _, second = map(int, runs.read_text().split())
    assert not Path(f"/proc/{first}").exists()
    assert node_of(second) != where
    (hosts.daemon.work("once") / "go").touch()
    assert job.wait(60).status == "succeeded"


def test_the_daemon_cut_off_from_all_stops_nothing(hosts: Lab) -> None:
    """Killed, it is away as well; the next one finds the nodes and the job as they are."""
    hosts.start("gpu1", "gpu2", devices=1)
    training = Training(hosts.daemon, "elastic", devices="1..2")
    training.await_workers(2)
    training.ahead()
    hosts.daemon.kill()
    training.ahead(20)
    hosts.daemon.start()
    training.await_workers(2)
    training.ahead()
    training.finish()
    assert hosts.daemon.record("elastic").losses == 0


def test_a_killed_agent_is_survived_by_its_tasks(hosts: Lab) -> None:
    hosts.start("gpu1", "gpu2", devices=1)
    training = Training(hosts.daemon, "elastic", devices="1..2")
    training.await_workers(2)
    training.ahead()
    host = hosts.hosts["gpu2"]
    host.kill()
    training.ahead(10)
    host.start(devices=1)
    until(lambda: hosts.state("gpu2") == "up", "gpu2 is back")
    training.ahead()
    training.finish()
    assert len(training.pids()) == 2
