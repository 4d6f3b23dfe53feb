"""Measures the members' links if the plan does not give them.

One member at a time exchanges data with all members on other hosts, both ways: in pairs, a fast link
would show the speed of the slower one. What passes is the capacity of its link, or of all the others'
links together: it could never use more.
"""

import time
from bisect import bisect
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch
from torch import Tensor

from muster.runtime.comm.choose import host_of
from muster.runtime.comm.group import GlooGroup, Work
from muster.wire.tasks.messages import Member

BLOCK = 64 * 1024
"""Bytes per send: dozens pass in a tenth of a second over the slowest useful link."""
WARM_UP = 0.3
"""Part of the time that is not counted: TCP ramps up, and a shaper's bucket drains."""


def probe(group: GlooGroup, members: Sequence[Member], seconds: float = 2.0) -> tuple[Member, ...]:
    """Return the members with their links' bytes/s, the same on all ranks.

    Measures nothing if the plan gives all links, or if all members share a host.
    """
    hosts = [host_of(member) for member in members]
    if len(set(hosts)) == 1 or all(member.bandwidth > 0 for member in members):
        return tuple(members)
    seen = torch.zeros(2, group.size, group.size, dtype=torch.float64)
    into, out_of = seen
    for target, host in enumerate(hosts):
        peers = [rank for rank, other in enumerate(hosts) if other != host]
        group.allreduce(torch.zeros(1)).wait()  # start together
        for peer, rate in _exchange(group, target, peers, seconds / len(hosts)).items():
            if group.rank == target:
                into[target, peer] = rate
            else:
                out_of[target, group.rank] = rate
    group.allreduce(seen).wait()
    found = _links(into, out_of)
    return tuple(
        member if member.bandwidth > 0 else replace(member, bandwidth=rate)
        for member, rate in zip(members, found, strict=True)
    )


def _links(into: Tensor, out_of: Tensor) -> list[float]:
    """Return the bytes/s of each link, from the traffic of each target (row) with its peers (columns).

    A link is at least as fast as the most seen on it, as target or peer; its slower direction counts.
    """
    coming = torch.maximum(into.sum(dim=1), out_of.amax(dim=0))
    going = torch.maximum(out_of.sum(dim=1), into.amax(dim=0))
    rates: list[float] = torch.minimum(coming, going).tolist()
    return rates


def _exchange(group: GlooGroup, target: int, peers: Sequence[int], seconds: float) -> dict[int, float]:
    """Exchange data between the target and its peers; return the bytes/s received from each."""
    others = peers if group.rank == target else [target] if group.rank in peers else []
    if not others:
        return {}
    until = time.monotonic() + seconds
    with ThreadPoolExecutor(2 * len(others)) as pool:
        sends = [pool.submit(_send, group, peer, until) for peer in others]
        arrivals = {peer: pool.submit(_receive, group, peer) for peer in others}
        for send in sends:
            send.result()
        return {peer: _rate(seen.result(), until, seconds) for peer, seen in arrivals.items()}


def _rate(arrivals: Sequence[float], until: float, seconds: float) -> float:
    """Return the bytes/s in the counted time, which is the same for all peers."""
    counted = (1 - WARM_UP) * seconds
    return BLOCK * (_arrived(arrivals, until) - _arrived(arrivals, until - counted)) / counted


def _arrived(arrivals: Sequence[float], at: float) -> float:
    """Count the blocks that had arrived by a time, including a part of the next."""
    done = bisect(arrivals, at)
    if done == 0 or done == len(arrivals):
        return float(done)
    before, after = arrivals[done - 1], arrivals[done]
    return done + (at - before) / (after - before)


def _send(group: GlooGroup, peer: int, until: float) -> None:
    """Send blocks until a time, two in flight; mark the second to last."""
    blocks = [torch.zeros(BLOCK // 4) for _ in range(2)]
    works: list[Work] = []
    marked = last = False
    while not last:
        tag = len(works) % 2
        if len(works) >= 2:
            works[-2].wait()
        marked, last = time.monotonic() >= until, marked
        blocks[tag][0] = float(marked and not last)
        works.append(group.send(blocks[tag], peer, tag))
    for work in works[-2:]:
        work.wait()


def _receive(group: GlooGroup, peer: int) -> list[float]:
    """Receive blocks up to the last; return their arrival times."""
    blocks = [torch.zeros(BLOCK // 4) for _ in range(2)]
    works = [group.receive(blocks[tag], peer, tag) for tag in range(2)]
    arrivals: list[float] = []
    while len(arrivals) < len(works):
        tag = len(arrivals) % 2
        works[len(arrivals)].wait()
        arrivals.append(time.monotonic())
        if len(arrivals) == len(works) - 1 and blocks[tag][0] == 0:
            works.append(group.receive(blocks[tag], peer, tag))
    return arrivals
