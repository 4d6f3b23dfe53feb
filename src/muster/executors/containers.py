"""Command lines of container engines that need no daemon: what a task's own command is put behind.

Each runs the command as the task's user, in its cgroups and its process group, with its environment,
its exit code and its signals, and with the job's folders under the same paths as outside.

  apptainer   https://apptainer.org/docs/user/main/cli/apptainer_exec.html
  enroot      https://github.com/NVIDIA/enroot/blob/master/doc/cmd/start.md
  podman      https://docs.podman.io/en/latest/markdown/podman-run.1.html
  bwrap       bwrap(1); the image is a folder with a root file system
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from muster.model.job import CONTAINER_ENGINES
from muster.model.task import TaskOrder

BWRAP = "bwrap"
"""Its outermost process dies of signals that are for the one inside: see `local/apart.py`."""
ENTER = 'cd "$0" && exec "$@"'
"""For an engine that cannot be told where to begin."""
OWN = frozenset({"PATH", "HOME", "HOSTNAME", "SHELL", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"})
"""Variables that mean something else inside: the image's own are better."""


class ContainerError(Exception):
    """A container that cannot be run here; the message says why."""


def engines_here(path: str | None = None) -> tuple[str, ...]:
    """Return the engines that this machine has."""
    return tuple(each for each in CONTAINER_ENGINES if shutil.which(each, path=path))


def container_command(order: TaskOrder, *, root: bool = False) -> list[str]:
    """Return what to put before a task's command; nothing if it runs in no container. `root`: whether
    root runs it."""
    if order.container is None:
        return []
    here = engines_here()
    engine = next((each for each in order.container.engines if each in here), None)
    if engine is None:
        wanted = " or ".join(order.container.engines)
        raise ContainerError(
            f"node {order.node} has no {wanted} to run {order.container.image}; install it there"
        )
    return _COMMANDS[engine](order.container.image, order, root)


def mounts_of(order: TaskOrder) -> list[str]:
    """Return the job's folders, which are the same inside: its working, own and checkpoint folder."""
    wanted = [order.folder, order.private, _checkpoints(order)]
    given = sorted({os.path.normpath(each) for each in wanted if each})
    return [each for each in given if not any(_is_below(each, other) for other in given)]


def _checkpoints(order: TaskOrder) -> str:
    """Return the folder of its checkpoints, or the one above, in which the task will make it."""
    place = order.environ.get("MUSTER_CHECKPOINT", "")
    if not place or "://" in place or _is_below(place, order.private):
        return ""
    return place if Path(place).is_dir() else str(Path(place).parent)


def _is_below(path: str, other: str) -> bool:
    return path.startswith(other.rstrip("/") + "/")


def _has_devices(order: TaskOrder) -> bool:
    return bool(order.environ.get("NVIDIA_VISIBLE_DEVICES"))


def _apptainer(image: str, order: TaskOrder, root: bool) -> list[str]:
    binds = [word for folder in mounts_of(order) for word in ("--bind", folder)]
    devices = ["--nv"] if _has_devices(order) else []
    return ["apptainer", "exec", *devices, *binds, "--pwd", order.folder, image]


def _enroot(image: str, order: TaskOrder, root: bool) -> list[str]:
    # Devices are passed by its hook, which reads NVIDIA_VISIBLE_DEVICES.
    mounts = [word for folder in mounts_of(order) for word in ("--mount", f"{folder}:{folder}")]
    named = [word for name in _variables(order) for word in ("--env", name)]
    return ["enroot", "start", *mounts, *named, image, "/bin/sh", "-c", ENTER, order.folder]


def _podman(image: str, order: TaskOrder, root: bool) -> list[str]:
    volumes = [word for folder in mounts_of(order) for word in ("--volume", f"{folder}:{folder}")]
    named = [word for name in _variables(order) for word in ("--env", name)]
    shown = order.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    devices = [w for each in shown.split(",") if each for w in ("--device", f"nvidia.com/gpu={each}")]
    # Peers and the coordinator are reached over the node's own network; NCCL uses shared memory.
    # Files are the user's own on both sides; root's podman has no other user to keep.
    users = "--userns=host" if root else "--userns=keep-id"
    shared = ["--network=host", "--ipc=host", users, "--cgroups=disabled"]
    begin = ["--workdir", order.folder, "--entrypoint="]
    return ["podman", "run", "--rm", *shared, *devices, *volumes, *named, *begin, image]


def _bwrap(image: str, order: TaskOrder, root: bool) -> list[str]:
    system = Path(image)
    if not system.is_dir():
        raise ContainerError(f"{image} is not a folder on node {order.node}; bwrap needs one")
    mounts = mounts_of(order)
    words = list(_root(system, Path("/"), [*mounts, "/dev", "/proc", "/sys"]))
    # Devices are the node's own; which of them the task uses, its variables say.
    words += ["--dev-bind", "/dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys"]
    words += [word for folder in mounts for word in ("--bind", folder, folder)]
    return [BWRAP, *words, "--die-with-parent", "--chdir", order.folder]


def _root(root: Path, inside: Path, mounts: Iterable[str]) -> Iterator[str]:
    """Show a folder of the image, read-only; around mounts by its parts: none can be made in it."""
    for entry in sorted(root.iterdir()):
        place = str(inside / entry.name)
        if place in mounts:
            continue
        if entry.is_symlink():
            yield from ("--symlink", str(entry.readlink()), place)
        elif entry.is_dir() and any(_is_below(each, place) for each in mounts):
            yield from ("--dir", place)
            yield from _root(entry, inside / entry.name, mounts)
        else:
            yield from ("--ro-bind", str(entry), place)


def _variables(order: TaskOrder) -> list[str]:
    """Return the names of what is passed on, for engines that pass nothing by themselves."""
    return sorted(set(order.environ) - OWN)


_COMMANDS: dict[str, Callable[[str, TaskOrder, bool], list[str]]] = {
    "apptainer": _apptainer,
    "enroot": _enroot,
    "podman": _podman,
    BWRAP: _bwrap,
}
