"""Limits of memory and cores, enforced by the kernel; real groups where this machine lets us."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from muster.executors.local.cgroups import GroupHome, TaskGroups, find_groups, group_trees
from muster.executors.local.shim import oom_kills
from muster.model.job import Role
from muster.model.task import TaskId, TaskOrder
from tests.unit.executors.local.conftest import PATH, Bench, exists, until

MIB = 2**20

HUNGRY = "x = bytearray(200 << 20); print('unharmed')"
"""Touches 200 MiB."""


@pytest.fixture
def found(bench: Bench) -> TaskGroups:
    """Groups for the tasks of the bench."""
    groups = find_groups(bench.data)
    if groups.caveat:
        pytest.skip(groups.caveat)
    return groups


@pytest.fixture
def groups(bench: Bench, found: TaskGroups) -> TaskGroups:
    """Groups that the bench's executor uses."""
    bench.another(groups=found)
    return found


def order(bench: Bench, *argv: str, memory: int = 0, millicores: int = 0) -> TaskId:
    task = TaskId(1, 1, Role.WORKER, 0)
    where = str(bench.folder / "work")
    bench.executor.start(
        TaskOrder(
            task,
            "n0",
            (),
            argv,
            PATH,
            where,
            "1/1/worker-0.log",
            own_folder=True,
            memory=memory,
            millicores=millicores,
        )
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
    """The kernel counts the periods in which it held a task back; time depends on who else computes."""
    task = order(bench, "sh", "-c", "while :; do :; done", millicores=100)
    bench.started(task)
    stat = next(path / "cpu.stat" for path in groups.of("1.1.worker-0") if (path / "cpu.stat").exists())

    def held_back() -> bool:
        counts = dict(line.split() for line in stat.read_text(encoding="ascii").splitlines())
        return int(counts["nr_throttled"]) >= 3

    until(held_back)
    bench.executor.signal(task, signal.SIGKILL)
    assert bench.exited(task).signal == signal.SIGKILL
    assert not groups.names()


def test_what_has_left_the_session_dies_with_the_task_even_without_its_shim(
    bench: Bench, groups: TaskGroups
) -> None:
    child_does = 'trap "" TERM HUP; echo child $$; sleep 1000; :'
    task = order(bench, "sh", "-c", f"setsid sh -c '{child_does}' & exec sleep 1000")
    pid = bench.started(task).pid
    child = int(bench.log_of(task, "child").split()[1])
    bench.kill_shim(task)
    assert pid
    os.kill(pid, signal.SIGKILL)
    bench.exited(task)
    assert not exists(child)
    assert not groups.names()


def test_groups_that_a_killed_shim_left_are_removed_by_the_next_executor(
    bench: Bench, found: TaskGroups
) -> None:
    left = found.make("9.1.worker-0", 0, 0)
    sleeper = subprocess.Popen(["sleep", "1000"])
    for path in left:
        (path / "cgroup.procs").write_text(str(sleeper.pid), encoding="ascii")
    bench.another(groups=found)
    assert sleeper.wait() == -signal.SIGKILL
    until(lambda: not found.names())


def pretended(folder: Path, own: str = "/", mounts: str = "") -> Path:
    """A process whose files name trees of groups in a folder: version 2 with both controllers."""
    tree = folder / "tree"
    for group in (tree, tree / own.lstrip("/")):
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.subtree_control").write_text("cpu memory", encoding="ascii")
    (tree / "cgroup.controllers").write_text("cpuset cpu memory pids", encoding="ascii")
    process = folder / "process"
    process.mkdir()
    line = f"41 31 0:38 / {tree} rw,relatime - cgroup2 cgroup2 rw"
    (process / "mountinfo").write_text(f"{mounts or line}\n", encoding="ascii")
    (process / "cgroup").write_text(f"0::{own}\n", encoding="ascii")
    return process


def test_version_2_limits_memory_swap_and_cores_in_one_group(tmp_path: Path) -> None:
    home = tmp_path / "muster"
    task = home / "1.1.worker-0"
    files = ("memory.max", "memory.swap.max", "memory.oom.group", "cpu.max")
    for group in (tmp_path, home, task):
        group.mkdir(exist_ok=True)
        (group / "cgroup.subtree_control").write_text("cpu memory", encoding="ascii")
    for file in files:
        (task / file).touch()
    groups = TaskGroups((GroupHome(home, frozenset({"memory", "cpu"}), unified=True),), {})
    assert groups.make(task.name, 64 * MIB, 1_500) == [task]
    written = {file: (task / file).read_text(encoding="ascii") for file in files}
    assert written == {
        "memory.max": str(64 * MIB),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.max": "150000 100000",
    }


def test_kills_for_memory_are_counted_in_both_versions(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text("low 0\noom 2\noom_kill 2\n", encoding="ascii")
    assert oom_kills(str(tmp_path)) == 2
    (tmp_path / "memory.events").unlink()
    (tmp_path / "memory.oom_control").write_text("under_oom 0\noom_kill 1\n", encoding="ascii")
    assert oom_kills(str(tmp_path)) == 1


@pytest.mark.parametrize("own", ["/", "/system.slice/muster.service"])
def test_the_daemons_own_group_is_found_in_each_tree(tmp_path: Path, own: str) -> None:
    (tree,) = group_trees(pretended(tmp_path, own))
    assert (tree.unified, tree.own) == (True, tmp_path / "tree" / own.lstrip("/"))
    assert {"memory", "cpu"} <= tree.controllers


def test_a_container_that_sees_a_part_of_the_tree_finds_itself_in_it(tmp_path: Path) -> None:
    line = f"35 31 0:32 /docker/abc {tmp_path} rw - cgroup cgroup rw,memory"
    process = pretended(tmp_path, mounts=line)
    (process / "cgroup").write_text("4:memory:/docker/abc/inner\n0::/\n", encoding="ascii")
    (tree,) = group_trees(process)
    assert (tree.own, tree.controllers) == (tmp_path / "inner", frozenset({"memory"}))


def test_where_groups_cannot_be_made_a_line_says_so(tmp_path: Path) -> None:
    """Nothing that is no cgroup is taken for one: its limits cannot be written."""
    groups = find_groups(tmp_path, pretended(tmp_path))
    assert groups.caveat.startswith("memory and cores are not enforced: cannot make a cgroup below")
    assert "Delegate=yes" in groups.caveat
    assert not [path for path in (tmp_path / "tree").iterdir() if path.is_dir()]
    none = find_groups(tmp_path, tmp_path / "missing")
    assert none.caveat == "memory and cores are not enforced: no cgroup file system is mounted"
    assert none.make("1.1.worker-0", MIB, 100) == []


def test_a_task_whose_group_cannot_be_made_later_does_not_run_without_its_limits(
    bench: Bench, tmp_path: Path
) -> None:
    gone = GroupHome(tmp_path / "gone" / "muster", frozenset({"memory", "cpu"}), unified=False)
    bench.another(groups=TaskGroups((gone,), {}))
    limited = bench.exited(order(bench, "true", memory=MIB))
    assert not limited.begun
    assert "cannot make its cgroup" in limited.error
    assert "\n" not in limited.error
    assert bench.exited(bench.order("true", index=1)).code == 0
