"""Control groups (cgroups) of tasks: limits of memory and cores, and all processes of a task.

Each task has a group below one of the executor's own, in the nearest group at or above the daemon's
where groups can be made: of version 2 (one tree for all controllers), or 1 (a tree for each).
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from muster.executors.local.shim import MEMBERS, remove_groups

MEMORY, CPU = "memory", "cpu"
LIMITED = {MEMORY: "memory", CPU: "cores"}
"""The controllers in use, and what users call what they limit."""

PERIOD = 100_000
"""us over which cores are counted: the kernel's default."""
LEAST_QUOTA = 1_000
"""us in a period: the kernel takes no less."""

PROBE = "probe"
"""The group that is made to see whether groups can be."""

ADVICE = "run the daemon as root, or by systemd with Delegate=yes and DelegateSubgroup=daemon"

ATTEMPTS = 3
"""At making a group: the last task's shim may remove the one above at the same time."""


class GroupError(Exception):
    """A group that cannot be made."""


@dataclass(frozen=True, slots=True)
class GroupTree:
    """A mounted tree of groups, with the daemon's own group in it."""

    mount: Path
    own: Path
    controllers: frozenset[str]
    unified: bool
    """Version 2."""


@dataclass(frozen=True, slots=True)
class GroupHome:
    """The group below which those of all tasks are."""

    path: Path
    controllers: frozenset[str]
    unified: bool

    def make(self, name: str) -> Path:
        """Make the group of this name, and the home if it is missing."""
        for attempt in range(ATTEMPTS):
            try:
                self.path.mkdir(exist_ok=True)
                self._divide()
                (self.path / name).mkdir(exist_ok=True)
                break
            except OSError as problem:
                if problem.errno not in (errno.ENOENT, errno.ENODEV) or attempt + 1 == ATTEMPTS:
                    raise
        return self.path / name

    def _divide(self) -> None:
        if self.unified:
            for group in (self.path.parent, self.path):
                _enable(group, self.controllers)


class TaskGroups:
    """Makes and lists the groups of tasks."""

    def __init__(self, homes: tuple[GroupHome, ...], missing: Mapping[str, str]) -> None:
        """`missing`: why limits are not enforced, by controller."""
        self._homes, self._missing = homes, missing

    @property
    def caveat(self) -> str:
        """Which limits are not enforced, and why; empty if all are."""
        if not self._missing:
            return ""
        what = " and ".join(LIMITED[each] for each in LIMITED if each in self._missing)
        verb = "are" if len(self._missing) > 1 or CPU in self._missing else "is"
        return f"{what} {verb} not enforced: {next(iter(self._missing.values()))}"

    def make(self, name: str, memory: int, millicores: int) -> list[Path]:
        """Make a task's groups with these limits (bytes, thousandths of a core; 0: none)."""
        made: list[Path] = []
        try:
            for home in self._homes:
                # Of memory even without a limit: it counts kills by the kernel.
                if MEMORY in home.controllers or millicores:
                    made.append(home.make(name))
                    _limit(home, made[-1], memory, millicores)
        except OSError as problem:
            remove_groups([str(path) for path in made])
            raise GroupError(f"cannot make its cgroup: {problem}") from None
        return made

    def names(self) -> set[str]:
        """Return the names of all tasks that have groups."""
        found: set[str] = set()
        for home in self._homes:
            with contextlib.suppress(OSError):
                found |= {path.name for path in home.path.iterdir() if path.is_dir()}
        return found

    def of(self, name: str) -> list[Path]:
        """Return the groups of a task, if it has any."""
        return [home.path / name for home in self._homes if (home.path / name).is_dir()]


NO_GROUPS = TaskGroups((), {})
"""For executors that limit nothing."""


def find_groups(folder: Path, process: Path = Path("/proc/self")) -> TaskGroups:
    """Find where this process can make groups for the tasks of a folder."""
    name = f"muster-{sha256(str(folder.absolute()).encode()).hexdigest()[:12]}"
    homes: list[GroupHome] = []
    problems = dict.fromkeys(LIMITED, "no cgroup file system is mounted")
    for tree in group_trees(process):
        for wanted in _choices(tree.controllers & set(LIMITED)):
            try:
                homes.append(_home(tree, wanted, name))
                break
            except OSError as problem:
                where = f"cannot make a cgroup below {tree.own}: {problem.strerror}"
                problems |= dict.fromkeys(wanted, f"{where} ({ADVICE})")
    found = {each for home in homes for each in home.controllers}
    return TaskGroups(tuple(homes), {each: problems[each] for each in LIMITED if each not in found})


def group_trees(process: Path) -> Iterator[GroupTree]:
    """Yield the mounted trees with a process's group in each."""
    try:
        mounts = (process / "mountinfo").read_text(encoding="utf-8").splitlines()
        lines = (process / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    own = {
        frozenset(names.split(",")): path for _, names, path in (line.split(":", 2) for line in lines)
    }
    for line in mounts:
        before, _, after = line.partition(" - ")
        root, mount = before.split(" ")[3:5]
        kind, _, options = after.split(" ")[:3]
        if kind == "cgroup2":
            with contextlib.suppress(OSError):
                there = _words(Path(mount) / "cgroup.controllers")
                path = _below(Path(mount), root, own.get(frozenset([""]), "/"))
                yield GroupTree(Path(mount), path, frozenset(there), unified=True)
        elif kind == "cgroup":
            named = frozenset(options.split(","))
            mine = next((names for names in own if names <= named), None)
            if mine is not None:
                path = _below(Path(mount), root, own[mine])
                yield GroupTree(Path(mount), path, mine, unified=False)


def _below(mount: Path, root: str, group: str) -> Path:
    """The folder of a group; a container may see only a part of the tree."""
    inside = group.removeprefix(root) if root != "/" else group
    return mount / inside.lstrip("/") if ".." not in inside else mount


def _choices(there: frozenset[str]) -> list[frozenset[str]]:
    """All that is there, else memory alone, which is what machines run out of."""
    return [each for each in dict.fromkeys((there, there & {MEMORY})) if each]


def _home(tree: GroupTree, wanted: frozenset[str], name: str) -> GroupHome:
    """Find the nearest group at or above the daemon's in which groups can be made; OSError if none.

    Of version 2 that is one above: a group with processes cannot divide what it has.
    """
    problem: OSError | None = None
    above = [tree.own, *(path for path in tree.own.parents if path.is_relative_to(tree.mount))]
    for parent in above:
        home = GroupHome(parent / name, wanted, tree.unified)
        try:
            _try(home)
        except OSError as error:
            problem = problem or error
        else:
            return home
    raise problem or OSError(errno.ENOENT, os.strerror(errno.ENOENT))


def _try(home: GroupHome) -> None:
    """Make a group and remove it; OSError if it or its limits cannot be made, or not be entered."""
    crossed = home.path.parent / MEMBERS
    if home.unified and not os.access(crossed, os.W_OK):
        # Who enters a group needs this right in the nearest one above both.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(crossed))
    try:
        probe = home.make(PROBE)
    except OSError:
        with contextlib.suppress(OSError):
            home.path.rmdir()
        raise
    try:
        _limit(home, probe, 2**40, 1_000)
    finally:
        remove_groups([str(probe)])


def _enable(group: Path, controllers: frozenset[str]) -> None:
    """Let the groups below have limits of their own."""
    control = group / "cgroup.subtree_control"
    missing = sorted(controllers - set(_words(control)))
    if missing:
        control.write_text(" ".join(f"+{each}" for each in missing), encoding="ascii")


def _limit(home: GroupHome, group: Path, memory: int, millicores: int) -> None:
    if memory and MEMORY in home.controllers:
        (_limit_memory if home.unified else _limit_memory_v1)(_writer(group), memory)
    if millicores and CPU in home.controllers:
        quota = max(LEAST_QUOTA, PERIOD * millicores // 1000)
        write = _writer(group)
        if home.unified:
            write("cpu.max", f"{quota} {PERIOD}")
        else:
            write("cpu.cfs_period_us", str(PERIOD))
            write("cpu.cfs_quota_us", str(quota))


Write = Callable[[str, str], None]


def _limit_memory(write: Write, memory: int) -> None:
    write("memory.max", str(memory))
    # Not every kernel accounts for swap, or can end a group as a whole.
    for file, text in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            write(file, text)


def _limit_memory_v1(write: Write, memory: int) -> None:
    write("memory.limit_in_bytes", str(memory))
    with contextlib.suppress(FileNotFoundError, PermissionError):
        write("memory.memsw.limit_in_bytes", str(memory))


def _writer(group: Path) -> Write:
    def write(file: str, text: str) -> None:
        # Not created where it is missing: outside of cgroups that would succeed.
        descriptor = os.open(group / file, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    return write


def _words(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").split()
