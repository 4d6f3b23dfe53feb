"""Limits of memory and cores, enforced by the kernel; real groups where this machine lets us."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from muster.executors.local.cgroups import TaskGroups, find_groups, group_trees
from muster.model.job import Role
from muster.model.task import TaskId, TaskOrder
from tests.unit.executors.local.conftest import PATH, Bench, exists, until

MIB = 2**20

HUNGRY = "x = bytearray(200 << 20); print('unharmed')"
"""Touches 200 MiB."""


@pytest.fixture
def groups(bench: Bench) -> TaskGroups:
    """Groups of the bench's own executor."""
    found = find_groups(bench.data)
    if found.caveat:
        pytest.skip(found.caveat)
    bench.another(groups=found)
    return found


def order(bench: Bench, *argv: str, memory: int = 0, millicores: int = 0) -> TaskId:
    task = TaskId(1, 1, Role.WORKER, 0)
    where = str(bench.folder / "work")
    bench.executor.start(
        TaskOrder(task, "n0", (), argv, PATH, where, "1/1/worker-0.log", memory, millicores)
    )
    return task


def test_a_task_above_its_memory_is_killed_and_that_is_told(bench: Bench, groups: TaskGroups) -> None:
    task = order(bench, "python3", "-S", "-c", HUNGRY, memory=64 * MIB)
    exited = bench.exited(task)
    assert (exited.signal, exited.oom, exited.memory) == (signal.SIGKILL, True, 64 * MIB)
    assert not groups.names()


def test_a_child_above_the_memory_is_told_as_well(bench: Bench, groups: TaskGroups) -> None:
    """The shell itself survives where the kernel kills one process, and exits with 137."""
    task = order(bench, "sh", "-c", f'python3 -S -c "{HUNGRY}"; exit $?', memory=64 * MIB)
    exited = bench.exited(task)
    assert exited.oom
    assert (exited.code, exited.signal) in ((137, None), (None, signal.SIGKILL))


def test_a_kill_that_was_not_for_memory_is_not_called_so(bench: Bench, groups: TaskGroups) -> None:
    task = order(bench, "sh", "-c", "kill -9 $$", memory=64 * MIB)
    exited = bench.exited(task)
    assert (exited.signal, exited.oom) == (signal.SIGKILL, False)


def test_without_a_limit_nothing_is_limited(bench: Bench, groups: TaskGroups) -> None:
    task = order(bench, "python3", "-S", "-c", HUNGRY)
    exited = bench.exited(task)
    assert (exited.code, exited.oom, exited.memory) == (0, False, 0)
    assert bench.log(task) == "unharmed\n"


def test_a_task_gets_its_cores_and_no_more(bench: Bench, groups: TaskGroups) -> None:
    """Throttled periods are counted by the kernel: the time itself depends on who else computes."""
    script = """
import pathlib, sys, time
own = {l.split(':')[1]: l.split(':')[2].strip() for l in open('/proc/self/cgroup')}
here = [p for p in map(pathlib.Path, sys.argv[1:]) if (p / 'cpu.stat').exists()][0]
def throttled():
    return int(dict(l.split() for l in (here / 'cpu.stat').read_text().splitlines())['nr_throttled'])
while throttled() < 3:
    pass
print('throttled')
"""
    task = TaskId(1, 1, Role.WORKER, 0)
    name = str(task).replace("/", ".")
    paths = [str(path) for path in groups.make(name, 0, 100)]
    assert order(bench, "python3", "-S", "-c", script, *paths, millicores=100) == task
    assert bench.exited(task).code == 0
    assert bench.log(task) == "throttled\n"


def test_what_has_left_the_session_dies_with_the_task_even_without_its_shim(
    bench: Bench, groups: TaskGroups
) -> None:
    task = order(
        bench, "sh", "-c", "setsid sh -c 'trap \"\" TERM HUP; echo child $$; sleep 1000; :' & exec sleep 1000"
    )
    pid = bench.started(task).pid
    child = int(bench.log_of(task, "child").split()[1])
    bench.kill_shim(task)
    assert pid
    os.kill(pid, signal.SIGKILL)
    bench.exited(task)
    until(lambda: not exists(child))


def test_groups_that_a_killed_shim_left_are_removed_by_the_next_executor(
    bench: Bench, groups: TaskGroups
) -> None:
    left = groups.make("9.1.worker-0", 0, 0)
    sleeper = subprocess.Popen(["sleep", "1000"])
    for path in left:
        (path / "cgroup.procs").write_text(str(sleeper.pid), encoding="ascii")
    bench.another(groups=groups)
    assert sleeper.wait() == -signal.SIGKILL
    until(lambda: not groups.of("9.1.worker-0") or bench.another(groups=groups) is None)


