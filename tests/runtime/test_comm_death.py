"""Peers that die or hang in the middle of a sum: real processes, real signals."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest
import torch

from muster.runtime.comm.base import Communicator
from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.ring import Ring
from muster.runtime.comm.sharded import Sharded
from muster.runtime.comm.store import StoreClient
from muster.runtime.errors import BrokenGroupError
from tests.runtime.comm_members import HOST, TOKEN, StoreServer

SIZE = 4
VICTIM, FATAL_STEP = 2, 3
DEADLINE = 2.0
PATIENCE = 60.0

Spawn = multiprocessing.get_context("forkserver")
Spawn.set_forkserver_preload(["torch", "torch.distributed"])

SERVERS = {"ring": 0, "sharded": 0, "dedicated": 2}
"""How many of the last ranks are servers: with two, the victim is one of them."""


def build(way: str, group: GlooGroup) -> tuple[Communicator, Sequence[int]]:
    """A member's communicator over 8 MB and a ballot, and the buckets that it puts."""
    works = group.rank < SIZE - SERVERS[way]
    device = "cpu" if works else "meta"
    flats = [torch.ones(1_000_000, device=device) for _ in range(2)] + [torch.ones(8)]
    if way == "ring":
        return Ring(group, flats), range(3)
    if way == "sharded":
        return Sharded(group, flats, dict.fromkeys(range(SIZE), 1.0)), range(3)
    owners = {2: 0.5, 3: 0.5}
    return Sharded(group, flats, owners, range(2)), range(3) if works else (2,)


def live(rank: int, address: str, way: str, fatal: int, pipe: Connection) -> None:
    """A member: step after step; the victim ends or stops itself when some of a step is under way."""
    torch.set_num_threads(1)
    group = GlooGroup(StoreClient(address, TOKEN, "1-death", PATIENCE), rank, SIZE, HOST)
    group.deadline = DEADLINE  # of steps alone: a busy machine may be slow to start the processes
    communicator, buckets = build(way, group)
    for step in range(10 * FATAL_STEP):
        began = time.monotonic()
        try:
            communicator.begin()
            for bucket in buckets:
                if (rank, step, bucket) == (VICTIM, FATAL_STEP, buckets[-1]):
                    os.kill(os.getpid(), fatal)
                communicator.put(bucket)
            communicator.finish()
        except BrokenGroupError:
            communicator.close()
            pipe.send((step, time.monotonic() - began, threading.active_count()))
            break
    pipe.close()


@contextmanager
def members(way: str, fatal: int) -> Iterator[list[Connection]]:
    """The processes' pipes; whatever happens, no process is left."""
    server = StoreServer()
    pipes = [Spawn.Pipe(duplex=False) for _ in range(SIZE)]
    processes: list[Any] = []
    try:
        for rank, (_, theirs) in enumerate(pipes):
            processes.append(
                Spawn.Process(target=live, args=(rank, server.address, way, fatal, theirs))
            )
            processes[-1].start()
            theirs.close()
        yield [ours for ours, _ in pipes]
    finally:
        for process in processes:
            process.kill()
            process.join()
            process.close()
        for ours, _ in pipes:
            ours.close()
        server.close()


@pytest.mark.parametrize("fatal", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("way", SERVERS)
def test_every_survivor_is_out_within_the_deadline(way: str, fatal: int) -> None:
    with members(way, fatal) as pipes:
        survivors = [pipe for rank, pipe in enumerate(pipes) if rank != VICTIM]
        for pipe in survivors:
            assert wait([pipe], PATIENCE), "a survivor still waits"
            step, seconds, threads = pipe.recv()
            # A survivor may be one step further than others, never more: the victim put nothing of it.
            assert step in (FATAL_STEP, FATAL_STEP + 1)
            # By the deadline of the step, not by gloo's own of thirty times as long.
            assert seconds < PATIENCE / 2
            assert threads == 1  # no thread of the communicator is left
