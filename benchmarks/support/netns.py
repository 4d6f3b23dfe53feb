"""A small real network on one machine: namespaces as nodes, a bridge as their switch, shaped links.

Each node is a network namespace with one interface; its other end hangs on a bridge in a namespace of
its own. Both ends are shaped by a token bucket (`tc tbf`), so that what leaves and what reaches a node
is each limited to its rate. Nothing outside these namespaces is touched.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PREFIX = "muster-links-"
MAX_NODES = 16
WHERE = Path("/run/netns")
CLONE_NEWNET = 0x40000000
"""From linux/sched.h; Python has os.setns only from 3.12."""

SEGMENT = 32_768
"""Bytes the kernel may hand to a link as one packet, to be cut later. The default of 64 kB would need a
burst of more than that, or the shaper cuts each packet itself, at the price of many more wake-ups."""
BURST = 40_000
"""Bytes a link lets through at once after a pause: just above one SEGMENT with its frames' headers."""
QUEUE = "100ms"
"""How long a packet may wait in the shaper before it is dropped: a switch with deep buffers."""


NETWORK = "10.77.0.0/24"
CONTROL = "cubic"
"""Congestion control of the nodes: the kernel's usual one, whatever this machine is set to. (BBR, a
default on some machines, probes for bandwidth and leaves 5 to 10 % of a shared link idle.)"""


class NoNetworkError(RuntimeError):
    """The machine cannot make namespaces: not root, or a program is missing."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """One node of the network: its namespace, its address, and its link's rate in Mbit/s."""

    name: str
    address: str
    rate: float


def enter(name: str) -> None:
    """Move the calling process (of one thread) into a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(WHERE / name, os.O_RDONLY)
    try:
        if libc.setns(handle, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter namespace {name}")
    finally:
        os.close(handle)


@contextmanager
def shaped_network(rates: Sequence[float]) -> Iterator[tuple[Namespace, ...]]:
    """This many nodes, each joined to one switch by a link of its rate (Mbit/s) each way."""
    check()
    if not 1 <= len(rates) <= MAX_NODES:
        raise ValueError(f"1 to {MAX_NODES} nodes, not {len(rates)}")
    sweep()
    mine = f"{PREFIX}{os.getpid()}-"
    switch = f"{mine}switch"
    nodes = tuple(Namespace(f"{mine}{i}", f"10.77.0.{i + 1}", r) for i, r in enumerate(rates))
    try:
        _make_switch(switch)
        for port, node in enumerate(nodes):
            _join(node, switch, f"port{port}")
        yield nodes
    finally:
        for name in (*(node.name for node in nodes), switch):
            _remove(name)


def check() -> None:
    """Say clearly what is missing, before anything is made."""
    if os.geteuid() != 0:
        raise NoNetworkError("network namespaces need root")
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    if missing:
        raise NoNetworkError(f"no `{'`, `'.join(missing)}`: install the package iproute2")


def sweep() -> None:
    """Remove the namespaces of earlier runs whose process is gone."""
    for path in sorted(WHERE.glob(f"{PREFIX}*")):
        owner = path.name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", owner).exists():
            _remove(path.name)


def _make_switch(switch: str) -> None:
    _run("ip", "netns", "add", switch)
    _run("ip", "-n", switch, "link", "add", "bridge0", "type", "bridge")
    _run("ip", "-n", switch, "link", "set", "bridge0", "up")


def _join(node: Namespace, switch: str, port: str) -> None:
    """A node's link: `link0` inside it, `port` on the switch."""
    _run("ip", "netns", "add", node.name)
    ends = ("type", "veth", "peer", "name", port, "netns", switch)
    _run("ip", "-n", node.name, "link", "add", "link0", *ends)
    _run("ip", "-n", switch, "link", "set", port, "master", "bridge0")
    _run("ip", "-n", node.name, "address", "add", f"{node.address}/24", "dev", "link0")
    _run("ip", "-n", node.name, "link", "set", "lo", "up")
    for where, device in ((node.name, "link0"), (switch, port)):
        _run("ip", "-n", where, "link", "set", device, "gso_max_size", str(SEGMENT), "up")
        shape = ("rate", f"{node.rate}mbit", "burst", str(BURST), "latency", QUEUE)
        _run("tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", *shape)
    inside = ("local", node.address, "table", "local", "scope", "host", "proto", "kernel")
    for route in ((NETWORK, "scope", "link", "proto", "kernel"), inside):
        how = ("dev", "link0", "src", node.address, "congctl", CONTROL)
        _run("ip", "-n", node.name, "route", "replace", *route, *how)


def _remove(name: str) -> None:
    if (WHERE / name).exists():
        subprocess.run(("ip", "netns", "del", name), check=False, timeout=10, capture_output=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, timeout=10, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoNetworkError(f"{' '.join(command)}: {done.stderr.strip()}")
