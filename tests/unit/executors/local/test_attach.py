"""Drivers and shims die at any moment; who looks next finds out what is true."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.executors.local.identity import ProcessIdentity
from muster.executors.local.shims import Shims
from muster.executors.local.task_folder import TaskFolder
from muster.model.job import Role
from muster.model.task import TaskId, TaskOrder
from tests.unit.executors.local.conftest import PATH, Bench, exists, until

DRIVER = """
import sys, time
from pathlib import Path
from muster.executors.local import LocalExecutor
from muster.model.job import Role
from muster.model.task import TaskId, TaskOrder
data, environ = Path(sys.argv[1]), {"PATH": "/usr/bin:/bin"}
executor = LocalExecutor(data, time.time)
for index, script in enumerate(sys.argv[2:]):
    task = TaskId(1, 1, Role.WORKER, index)
    argv = ("sh", "-c", script)
    executor.start(TaskOrder(task, "n0", (), argv, environ, str(data), f"1/1/worker-{index}.log"))
print("ordered", flush=True)
time.sleep(1000)
"""


def wait_for_claims(data: Path, least: int) -> None:
    until(lambda: len(list(data.glob("tasks/1/1/*/claim.json"))) >= least)


def late(folder: Path) -> ProcessIdentity:
    """A shim that comes to a task's folder, has nothing to do there, and is gone."""
    shims = Shims()
    shim, told = shims.start(folder)
    assert os.read(told, 1) == b""
    os.close(told)
    until(lambda: not shim.alive)
    shims.close()
    return shim


def worker(index: int) -> TaskId:
    return TaskId(1, 1, Role.WORKER, index)


@pytest.fixture
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else's."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


def test_tasks_outlive_a_driver_that_is_killed(bench: Bench) -> None:
    """One lives on, one ends while nobody watches; the next driver learns both."""
    go = bench.folder / "go"
    os.mkfifo(go)
    scripts = [f"read line < {go}; exit 4", "exec sleep 1000"]
    command = [sys.executable, "-c", DRIVER, str(bench.data), *scripts]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        short, long = worker(0), worker(1)
        until(lambda: all((bench.task_folder(t) / "begun.json").exists() for t in (short, long)))
        driver.kill()
    go.write_text("now\n", encoding="ascii")
    until(lambda: (bench.task_folder(short) / "ended.json").exists())
    bench.executor.attach([short, long])
    assert bench.exited(short).code == 4
    assert bench.started(long).pid == bench.entry(long, "begun")["pid"]
    bench.executor.signal(long, signal.SIGTERM)
    assert bench.exited(long).signal == signal.SIGTERM


def test_a_driver_killed_at_any_moment_leaves_tasks_that_ran_once_or_never(bench: Bench) -> None:
    """Each task is heard of; who was reported as never begun has left no trace, the others one line."""
    for claims in (0, 4, 8):
        data = bench.folder / str(claims)
        command = [sys.executable, "-c", DRIVER, str(data), *["echo once"] * 12]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
            assert driver.stdout is not None
            driver.stdout.readline()
            wait_for_claims(data, claims)
            driver.kill()
        bench.data = data
        bench.another()
        tasks = [worker(index) for index in range(12)]
        bench.executor.attach(tasks)
        for task in tasks:
            if bench.exited(task).begun:
                assert bench.log(task) == "once\n"
            else:
                with pytest.raises(LookupError):
                    bench.log(task)


def test_a_process_that_has_got_the_number_since_is_left_alone(
    bench: Bench, innocent: subprocess.Popen[bytes]
) -> None:
    task = bench.shell("exec sleep 1000")
    os.kill(bench.started(task).pid or 0, signal.SIGKILL)
    bench.exited(task)
    (bench.task_folder(task) / "ended.json").unlink()
    for name in ("begun", "claim"):  # it cannot have begun in the same tick
        bench.edit(task, name, pid=innocent.pid, ticks=1)
    bench.another().attach([task])
    bench.executor.signal(task, signal.SIGKILL)
    exited = bench.exited(task)
    assert (exited.code, exited.signal, exited.begun) == (None, None, True)
    assert exited.error == "its exit status is unknown"
    assert innocent.poll() is None


def test_after_a_reboot_every_task_is_gone(bench: Bench, innocent: subprocess.Popen[bytes]) -> None:
    """Even if a process of today has the number and began as long after the boot."""
    task = bench.shell("exit 0")
    bench.exited(task)
    (bench.task_folder(task) / "ended.json").unlink()
    ticks = int(Path(f"/proc/{innocent.pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    for name in ("begun", "claim"):
        bench.edit(task, name, pid=innocent.pid, ticks=ticks, boot="an earlier one")
    bench.another().attach([task])
    bench.executor.signal(task, signal.SIGKILL)
    exited = bench.exited(task)
    assert (exited.code, exited.signal) == (None, None)
    assert innocent.poll() is None


def test_files_that_a_power_failure_has_emptied_count_as_gone(bench: Bench) -> None:
    task = bench.shell("exit 0")
    bench.exited(task)
    (bench.task_folder(task) / "ended.json").unlink()
    for name in ("begun", "claim"):
        (bench.task_folder(task) / f"{name}.json").write_bytes(b"")
    bench.another().attach([task])
    assert bench.exited(task).code is None


def test_a_task_whose_shim_is_killed_is_watched_to_its_end(bench: Bench) -> None:
    task = bench.shell("sleep 1000 & echo child $!; wait")
    pid = bench.started(task).pid
    child = int(bench.log_of(task, "child").split()[1])
    bench.kill_shim(task)
    bench.executor.signal(task, 0)
    assert pid is not None
    assert exists(pid)
    os.kill(pid, signal.SIGKILL)
    exited = bench.exited(task)
    assert (exited.code, exited.signal, exited.begun) == (None, None, True)
    until(lambda: not exists(child))


def test_a_task_without_its_shim_is_found_again_and_can_be_stopped(bench: Bench) -> None:
    task = bench.shell("exec sleep 1000")
    pid = bench.started(task).pid
    bench.kill_shim(task)
    bench.another().attach([task])
    assert bench.started(task).pid == pid
    bench.executor.signal(task, signal.SIGTERM)
    assert bench.exited(task).begun
    bench.another().attach([task])
    assert bench.exited(task).error == "its exit status is unknown"


def test_an_order_that_nobody_took_on_is_taken_back(bench: Bench) -> None:
    """The driver died between the order and the start. A shim that comes late does nothing."""
    task = worker(0)
    folder = TaskFolder(bench.task_folder(task))
    order = TaskOrder(task, "n0", (), ("true",), PATH, str(bench.folder), "1/1/worker-0.log")
    output = bench.data / "logs/1/1/worker-0.log"
    folder.put_order(order, output)
    bench.executor.attach([task])
    assert not bench.exited(task).begun
    late(folder.path)
    assert not output.exists()
    bench.another()
    bench.order("true")
    assert bench.exited(task).code == 0


def test_an_order_whose_shim_died_before_the_start_never_began(bench: Bench) -> None:
    task = bench.shell("exit 0")
    bench.exited(task)
    for name in ("begun", "ended"):
        (bench.task_folder(task) / f"{name}.json").unlink()
    bench.another().attach([task])
    exited = bench.exited(task)
    assert (exited.begun, exited.error) == (False, "its start was interrupted")


def test_who_attaches_while_a_shim_is_at_it_waits_for_it(
    bench: Bench, innocent: subprocess.Popen[bytes]
) -> None:
    task = bench.shell("exit 6")
    bench.exited(task)
    folder = bench.task_folder(task)
    files = {name: (folder / f"{name}.json").read_bytes() for name in ("begun", "ended")}
    for name in files:
        (folder / f"{name}.json").unlink()
    ticks = int(Path(f"/proc/{innocent.pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    bench.edit(task, "claim", pid=innocent.pid, ticks=ticks)
    bench.another().attach([task])
    for name, content in files.items():
        (folder / "draft").write_bytes(content)
        (folder / "draft").rename(folder / f"{name}.json")
    innocent.kill()
    assert bench.exited(task).code == 6


def test_a_second_shim_leaves_the_task_to_the_first(bench: Bench) -> None:
    task = bench.shell("echo once; exec sleep 1000")
    bench.started(task)
    shim = late(bench.task_folder(task))
    assert bench.log_of(task, "once") == "once\n"
    assert json.loads((bench.task_folder(task) / "claim.json").read_bytes())["pid"] != shim.pid
