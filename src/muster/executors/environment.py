"""Environment variables of tasks, by which each framework finds its peers.

Workers are ranked 0, 1, ... in order of their indices, without gaps (`RANK`). Servers are not part of
`WORLD_SIZE`; of these frameworks only TensorFlow knows them.
"""

import contextlib
import json
import random
import re
import socket
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from muster.model.job import Role

INHERITED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR"
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|((https?|no|all)_proxy)"
    r"|XDG_(CACHE|CONFIG|DATA)_HOME",
    re.IGNORECASE,
)
"""What a user's program needs to find its commands, files, language and network."""

PERSONAL = re.compile(r"HOME|USER|LOGNAME|SHELL|TMPDIR|XDG_(CACHE|CONFIG|DATA)_HOME")
"""What of it is about the manager's own user."""

PORTS = range(20_000, 32_000)
"""Where the daemon and tasks listen. Systems give no port below 32,768 to an outgoing connection, which
could otherwise take one between its choice and its use."""
ROWS = 200
"""Places at which a row of free ports is looked for."""

OURS = "MUSTER_"
"""Prefix of variables that users cannot override: the coordinator relies on them."""


@dataclass(frozen=True, slots=True)
class TaskPlace:
    role: Role
    index: int
    name: str
    """Its name in the job: "worker-0"."""
    node: str
    host: str
    """The address at which others reach it."""
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GangEnvironment:
    """A gang, as its tasks see it."""

    job: str
    number: int
    generation: int
    tasks: tuple[TaskPlace, ...]
    master_port: int
    """A free port on the first worker's host."""
    coordinator: str = ""
    """Where tasks report ("host:port"); empty: nowhere."""
    token: str = ""
    threads: int = 0
    """Threads of each task; 0: its libraries decide."""
    virtual: bool = False
    """Whether its devices are CPU cores."""
    attempt: int = 0
    """How often the gang was restarted."""
    restarts: int = 0
    """How often it may be restarted."""
    checkpoint_signal: str | None = None
    interface: str = ""
    """Network interface at which the task's peers reach it; empty: the libraries' own choice."""

    workers: tuple[TaskPlace, ...] = field(init=False, repr=False, compare=False)
    """By rank."""
    servers: tuple[TaskPlace, ...] = field(init=False, repr=False, compare=False)
    _seats: Mapping[TaskPlace, "_Seat"] = field(init=False, repr=False, compare=False)
    _addresses: str = field(init=False, repr=False, compare=False)
    """Of all tasks, for TensorFlow, as JSON: written once, since every task gets it."""

    def __post_init__(self) -> None:
        workers, servers = (
            tuple(sorted((t for t in self.tasks if t.role is role), key=lambda task: task.index))
            for role in (Role.WORKER, Role.SERVER)
        )
        object.__setattr__(self, "workers", workers)
        object.__setattr__(self, "servers", servers)
        object.__setattr__(
            self, "_seats", _seats(workers, self.virtual) | _seats(servers, self.virtual)
        )
        kinds = {"chief": workers[:1], "worker": workers[1:], "ps": servers}
        found = {kind: [self._address(one) for one in who] for kind, who in kinds.items() if who}
        object.__setattr__(self, "_addresses", json.dumps(found))

    def of(self, task: TaskPlace) -> dict[str, str]:
        return {
            **self._devices(task),
            **self._network(),
            **self._torch(task),
            **self._torchrun(task),
            **self._tensorflow(task),
            **self._horovod(task),
            **self._muster(task),
        }

    @property
    def master(self) -> TaskPlace:
        """The rendezvous: the first worker, or the first task if there are none."""
        return (self.workers or self.tasks)[0]

    def _devices(self, task: TaskPlace) -> dict[str, str]:
        shown = "" if self.virtual else ",".join(str(device) for device in task.devices)
        variables = {
            "CUDA_VISIBLE_DEVICES": shown,
            "NVIDIA_VISIBLE_DEVICES": shown,
            "ROCR_VISIBLE_DEVICES": shown,
        }
        if shown:
            # Our numbers are NVML's, in bus order; CUDA would put the fastest first.
            variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        if self.threads:
            variables["OMP_NUM_THREADS"] = str(self.threads)
        return variables

    def _network(self) -> dict[str, str]:
        """What Gloo and NCCL bind to: their own choice may be a network that peers cannot reach."""
        names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
        return dict.fromkeys(names, self.interface) if self.interface else {}

    def _torch(self, task: TaskPlace) -> dict[str, str]:
        """PyTorch's env://. A server has no rank and waits for no peer."""
        seat = self._seats[task]
        common = {
            "MASTER_ADDR": self.master.host,
            "MASTER_PORT": str(self.master_port),
            "ROLE_NAME": task.role.value,
            "ROLE_RANK": str(seat.rank),
            "ROLE_WORLD_SIZE": str(seat.size),
        }
        if task.role is not Role.WORKER:
            return common
        return {
            **common,
            "RANK": str(seat.rank),
            "WORLD_SIZE": str(seat.size),
            "LOCAL_RANK": str(seat.local_rank),
            "LOCAL_WORLD_SIZE": str(seat.local_size),
            "GROUP_RANK": str(seat.group),
            "GROUP_WORLD_SIZE": str(seat.groups),
        }

    def _torchrun(self, task: TaskPlace) -> dict[str, str]:
        """For tasks that run `torchrun`: it takes a task for a node, with a process per device."""
        if task.role is not Role.WORKER:
            return {}
        return {
            "PET_NNODES": str(len(self.workers)),
            "PET_NPROC_PER_NODE": str(max(1, len(task.devices))),
            "PET_NODE_RANK": str(self._seats[task].rank),
            "PET_MASTER_ADDR": self.master.host,
            "PET_MASTER_PORT": str(self.master_port),
            "TORCHELASTIC_RESTART_COUNT": str(self.attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(self.restarts),
            "TORCHELASTIC_RUN_ID": str(self.number),
        }

    def _tensorflow(self, task: TaskPlace) -> dict[str, str]:
        """The first worker is the chief; TensorFlow counts the others from 0 again."""
        rank = self._seats[task].rank
        if task.role is Role.SERVER:
            mine: dict[str, str | int] = {"type": "ps", "index": rank}
        else:
            mine = {"type": "worker", "index": rank - 1} if rank else {"type": "chief", "index": 0}
        return {"TF_CONFIG": f'{{"cluster": {self._addresses}, "task": {json.dumps(mine)}}}'}

    def _horovod(self, task: TaskPlace) -> dict[str, str]:
        if task.role is not Role.WORKER:
            return {}
        seat = self._seats[task]
        return {
            "HOROVOD_RANK": str(seat.rank),
            "HOROVOD_SIZE": str(seat.size),
            "HOROVOD_LOCAL_RANK": str(seat.local_rank),
            "HOROVOD_LOCAL_SIZE": str(seat.local_size),
            "HOROVOD_CROSS_RANK": str(seat.group),
            "HOROVOD_CROSS_SIZE": str(seat.groups),
            "HOROVOD_HOSTNAME": task.host,
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": self.master.host,
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(self.master_port),
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
        }

    def _muster(self, task: TaskPlace) -> dict[str, str]:
        on_device = task.devices and not self.virtual
        variables = {
            "MUSTER_JOB": self.job,
            "MUSTER_TASK": task.name,
            "MUSTER_ROLE": task.role.value,
            "MUSTER_INDEX": str(task.index),
            "MUSTER_NODE": task.node,
            "MUSTER_GENERATION": str(self.generation),
            "MUSTER_HOST": task.host,
            "MUSTER_THREADS": str(self.threads),
            # The first of the devices that it sees.
            "MUSTER_DEVICE": "cuda:0" if on_device else "cpu",
            "MUSTER_TOKEN": self.token,
        }
        if self.coordinator:
            variables["MUSTER_COORDINATOR"] = self.coordinator
        if self.checkpoint_signal:
            variables["MUSTER_CHECKPOINT_SIGNAL"] = self.checkpoint_signal
        return variables

    def _address(self, task: TaskPlace) -> str:
        seat = self._seats[task]
        before = seat.rank + (len(self.workers) if task.role is Role.SERVER else 0)
        port = self.master_port + 1 + before
        host = f"[{task.host}]" if ":" in task.host else task.host
        return f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class _Seat:
    """A task's numbers within its role."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    group: int
    groups: int


def _seats(alike: tuple[TaskPlace, ...], virtual: bool) -> dict[TaskPlace, _Seat]:
    """Number the tasks of a role. Scripts use LOCAL_RANK as a device number, and a task sees only its
    own devices: with real ones each task is a group of its own, otherwise the tasks of a node are."""
    ranks = {task: rank for rank, task in enumerate(alike)}
    groups: dict[object, list[TaskPlace]] = {}
    for task in alike:
        alone = task.devices and not virtual
        groups.setdefault(task if alone else task.node, []).append(task)
    return {
        task: _Seat(ranks[task], len(alike), local, len(group), number, len(groups))
        for number, group in enumerate(groups.values())
        for local, task in enumerate(group)
    }


def base_environment(environ: Mapping[str, str], *, same_user: bool = True) -> dict[str, str]:
    """Return what a task inherits from the manager, without its virtual environment in PATH.

    Python writes its output at once: a log is followed live, and a killed task loses none of it.
    """
    kept = {name: value for name, value in environ.items() if INHERITED.fullmatch(name)}
    if not same_user:
        kept = {name: value for name, value in kept.items() if not PERSONAL.fullmatch(name)}
    own = environ.get("VIRTUAL_ENV")
    if own and "PATH" in kept:
        folders = kept["PATH"].split(":")
        kept["PATH"] = ":".join(folder for folder in folders if folder != f"{own}/bin")
    return {**kept, "PYTHONUNBUFFERED": "1"}


def compose(
    base: Mapping[str, str], users: Mapping[str, str], given: Mapping[str, str]
) -> dict[str, str]:
    """Merge a task's environment: the user's variables win, except over Muster's own."""
    fixed = {name: value for name, value in given.items() if name.startswith(OURS)}
    return {**base, **given, **users, **fixed}


def free_row(host: str, count: int, used: Container[int] = ()) -> int:
    """Return the first of `count` free ports in a row; another process may still take one first.

    `used`: ports given away that may not be bound yet.
    """
    for first in _drawn(range(PORTS.start, PORTS.stop - count)):
        if any(port in used for port in range(first, first + count)):
            continue
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(_bound(host, port))
            return first
    raise OSError(f"no {count} ports in a row are free on {host}")


def unused_row(ports: range, count: int, used: Container[int] = ()) -> int:
    """Return the first of `count` ports in a row of which none is in use by us."""
    for first in _drawn(range(ports.start, ports.stop - count + 1)):
        if not any(port in used for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} ports in a row are unused in {ports.start}-{ports.stop - 1}")


def _drawn(starts: range) -> Iterator[int]:
    """Yield some of these at random; the first is nearly always good, so that no more are drawn."""
    if len(starts) <= ROWS:
        yield from random.sample(starts, len(starts))
        return
    for _ in range(ROWS):
        yield random.choice(starts)


def _bound(host: str, port: int) -> socket.socket:
    probe = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        probe.bind((host, port))
    except OSError:
        probe.close()
        raise
    return probe
