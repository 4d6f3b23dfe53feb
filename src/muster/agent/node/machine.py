"""What this process may use of its machine: cores, memory, addresses."""

import contextlib
import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from muster.executors.local.cgroups import GroupTree, group_trees

SIOCGIFADDR = 0x8915
"""Linux' ioctl(2): the IPv4 address of an interface."""

IPV6_ADDRESSES = Path("/proc/net/if_inet6")


def millicores() -> int:
    """Return thousandths of cores: those it may run on, within the limits of its cgroups."""
    cores = 1000 * len(os.sched_getaffinity(0))
    return max(1, min([cores, *(limit for group in _groups("cpu") for limit in _quota(*group))]))


def memory() -> int:
    """Return bytes: of the machine, within the limits of its cgroups."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [
        limit
        for path, unified in _groups("memory")
        for limit in _number(path / ("memory.max" if unified else "memory.limit_in_bytes"))
    ]
    return min([whole, *limits])


def interface_of(address: str) -> str:
    """Return the network interface that has an address; empty if none has."""
    with contextlib.suppress(ValueError, OSError):
        wanted = ipaddress.ip_address(address)
        if wanted.version == 6:
            return _interface_v6(wanted.exploded.replace(":", ""))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            for _, name in socket.if_nameindex():
                if _address_v4(probe, name) == address:
                    return name
        if wanted.is_loopback:
            return "lo"  # which has all of 127.0.0.0/8
    return ""


def _interface_v6(digits: str) -> str:
    for line in IPV6_ADDRESSES.read_text(encoding="ascii").splitlines():
        found = line.split()
        if found[0] == digits:
            return found[5]
    return ""


def _address_v4(probe: socket.socket, name: str) -> str:
    try:
        answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    except OSError:
        return ""
    return socket.inet_ntoa(answer[20:24])


def _groups(controller: str) -> Iterator[tuple[Path, bool]]:
    """Yield this process's cgroup of a controller and those above it, and whether of version 2."""
    for tree in group_trees(Path("/proc/self")):
        if controller in tree.controllers:
            for path in _upwards(tree):
                yield path, tree.unified


def _upwards(tree: GroupTree) -> list[Path]:
    return [tree.own, *(path for path in tree.own.parents if path.is_relative_to(tree.mount))]


def _quota(path: Path, unified: bool) -> Iterator[int]:
    """Yield the thousandths of cores that a cgroup may use, if it has a limit."""
    with contextlib.suppress(OSError, ValueError):
        if unified:
            quota, period = (path / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (path / f"cpu.cfs_{name}_us").read_text(encoding="ascii")
                for name in ("quota", "period")
            )
        if int(quota) > 0:
            yield 1000 * int(quota) // int(period)


def _number(path: Path) -> Iterator[int]:
    """Yield the number in a file, if it has one."""
    with contextlib.suppress(OSError, ValueError):
        yield int(path.read_text(encoding="ascii"))
