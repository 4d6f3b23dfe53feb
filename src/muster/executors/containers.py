"""Command lines of container engines that need no daemon: what a task's own command is put behind.

Each runs the command as the task's user, in its cgroups and its process group, with its environment,
its exit code and its signals, and with the job's folders under the same paths as outside.

  apptainer   https://apptainer.org/docs/user/main/cli/apptainer_exec.html
  enroot      https://github.com/NVIDIA/enroot/blob/master/doc/cmd/start.md
  podman      https://docs.podman.io/en/latest/markdown/podman-run.1.html
  bwrap       bwrap(1); the image is a folder with a root file system
"""

import os
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.model.job import CONTAINER_ENGINES
from muster.model.task import TaskOrder

BWRAP = "bwrap"
"""Its outermost process dies of signals that are for the one inside: see `local/apart.py`."""
ENTER = 'cd "$0" && exec "$@"'
"""For an engine that cannot be told where to begin."""
OWN = frozenset({"PATH", "HOME", "HOSTNAME", "SHELL", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"})
"""Variables that mean something else inside: the image's own are better."""
PODMANS_OWN = "/usr/libexec/podman:/usr/lib/podman"
"""Where podman keeps the programs that it starts itself."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a task, or a command beside it, begins."""

    order: TaskOrder
    root: bool
    """Whether root runs it."""
    terminal: bool
    """Whether its streams are a terminal."""
    name: str
    """What the engine calls it; empty: what it likes."""


class ContainerError(Exception):
    """A container that cannot be run here; the message says why."""


def engines_here(path: str | None = None) -> tuple[str, ...]:
    """Return the engines that this machine has."""
    return tuple(each for each in CONTAINER_ENGINES if shutil.which(each, path=path))


def container_command(
    order: TaskOrder, *, root: bool = False, terminal: bool = False, name: str = ""
) -> list[str]:
    """Return what to put before a task's command; nothing if it runs in no container.

    `root`: whether root runs it; `terminal`: whether its streams are one; `name`: what an engine that
    keeps a list of containers calls it.
    """
    if order.container is None:
        return []
    here = engines_here()
    engine = next((each for each in order.container.engines if each in here), None)
    if engine is None:
        wanted = " or ".join(order.container.engines)
        raise ContainerError(
            f"node {order.node} has no {wanted} to run {order.container.image}; install it there"
        )
    return _COMMANDS[engine](order.container.image, Start(order, root, terminal, name))


def clean_command(wrap: list[str], name: str) -> list[str]:
    """Return what removes the container of a task that was killed: none but podman keeps it then."""
    return ["podman", "rm", "--force", "--ignore", name] if wrap[:1] == ["podman"] else []


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


def _apptainer(image: str, start: Start) -> list[str]:
    order = start.order
    binds = [word for folder in mounts_of(order) for word in ("--bind", folder)]
    devices = ["--nv"] if _has_devices(order) else []
    # As root it asks for every capability, and fails where root has fewer.
    users = ["--userns"] if start.root and not _has_all_capabilities() else []
    return ["apptainer", "exec", *devices, *users, *binds, "--pwd", order.folder, image]


def _has_all_capabilities() -> bool:
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    held = next(line for line in status.splitlines() if line.startswith("CapPrm"))
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text(encoding="ascii"))
    return int(held.split()[1], 16) == (1 << last + 1) - 1


def _enroot(image: str, start: Start) -> list[str]:
    # Devices are passed by its hook, which reads NVIDIA_VISIBLE_DEVICES.
    order = start.order
    mounts = [word for folder in mounts_of(order) for word in ("--mount", f"{folder}:{folder}")]
    named = [word for name in _variables(order) for word in ("--env", name)]
    return ["enroot", "start", *mounts, *named, image, "/bin/sh", "-c", ENTER, order.folder]


def _podman(image: str, start: Start) -> list[str]:
    order = start.order
    volumes = [word for folder in mounts_of(order) for word in ("--volume", f"{folder}:{folder}")]
    named = [word for name in _variables(order) for word in ("--env", name)]
    shown = order.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    devices = [w for each in shown.split(",") if each for w in ("--device", f"nvidia.com/gpu={each}")]
    # Peers and the coordinator are reached over the node's own network; NCCL uses shared memory.
    # Files are the user's own on both sides; root's podman has no other user to keep.
    users = "--userns=host" if start.root else "--userns=keep-id"
    shared = ["--network=host", "--ipc=host", users, "--cgroups=disabled", *_limits(), *_init()]
    # Its keys to detach from a terminal would be missing in shells and editors.
    streams = ["--interactive", *(["--tty", "--detach-keys="] if start.terminal else [])]
    begin = ["--workdir", order.folder, "--entrypoint="]
    called = [f"--name={start.name}"] if start.name else []
    # What is written to a folder goes to an overlay, which is removed.
    system = ["--rootfs", f"{image}:O"] if image.startswith("/") else [image]
    words = [*called, *streams, *shared, *devices, *volumes, *named, *begin, *system]
    return ["podman", "run", "--rm", *words]


def _limits() -> list[str]:
    """Return the task's own limits: podman's are higher, and nobody may raise theirs. Its own limit of
    processes podman lowers to those that there can be."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    there = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    own = resource.getrlimit(resource.RLIMIT_NPROC)
    processes = [there if each == resource.RLIM_INFINITY else min(each, there) for each in own]
    return [
        f"--ulimit=nofile={files[0]}:{files[1]}",
        f"--ulimit=nproc={processes[0]}:{processes[1]}",
    ]


def _init() -> list[str]:
    """Have a first process of podman's own where it has one: a program that is the first one itself
    ignores SIGTERM unless it handles it, and would be killed at the end of its grace."""
    path = os.environ.get("PATH", os.defpath)
    found = shutil.which("catatonit", path=f"{path}:{PODMANS_OWN}")
    return ["--init", f"--init-path={found}"] if found else []


def _bwrap(image: str, start: Start) -> list[str]:
    order = start.order
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


_COMMANDS: dict[str, Callable[[str, Start], list[str]]] = {
    "apptainer": _apptainer,
    "enroot": _enroot,
    "podman": _podman,
    BWRAP: _bwrap,
}
