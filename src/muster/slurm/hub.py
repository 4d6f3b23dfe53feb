"""The first task's part in `srun`: it hands steps to the tasks of the job, and their output back."""

import contextlib
import signal
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.slurm.lines import PATIENCE, Message, TaskPeer, greeted


@dataclass(slots=True)
class _Step:
    """What one `srun` runs."""

    caller: TaskPeer
    ranks: tuple[int, ...]
    left: set[int] = field(default_factory=set)


class Hub:
    """Listens for the tasks of a job and for the `srun`s of its script."""

    def __init__(self, listening: socket.socket, token: str, tasks: int) -> None:
        self._listening, self._token, self._tasks = listening, token, tasks
        self._workers: dict[int, TaskPeer] = {}
        self._hosts: dict[int, str] = {}
        self._steps: dict[int, _Step] = {}
        self._numbers = 0
        self._lock = threading.Condition()
        threading.Thread(target=self._accept, name="hub", daemon=True).start()

    def close(self) -> None:
        """Let the other tasks go: the script has ended."""
        with contextlib.suppress(OSError):
            self._listening.close()
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            with contextlib.suppress(OSError):
                worker.send(end=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        peer = greeted(connection, self._token)
        first = peer.receive() if peer is not None else None
        if peer is None or first is None:
            return
        if "rank" in first:
            self._hear_worker(peer, first)
        else:
            self._run_step(peer, first)

    def _hear_worker(self, peer: TaskPeer, first: Message) -> None:
        rank = int(first["rank"])
        with self._lock:
            self._workers[rank], self._hosts[rank] = peer, str(first["host"])
            self._lock.notify_all()
        while (message := peer.receive()) is not None:
            self._pass_on(rank, message)
        self._lose(rank)

    def _pass_on(self, rank: int, message: Message) -> None:
        """Give a task's output or end to the `srun` that waits for it."""
        with self._lock:
            step = self._steps.get(message["step"])
            if step is None:
                return
            if "code" in message:
                step.left.discard(rank)
            over = not step.left
            if over:
                del self._steps[message["step"]]
        procid = step.ranks.index(rank)
        with contextlib.suppress(OSError):
            step.caller.send(**{**message, "procid": procid, "over": over})

    def _lose(self, rank: int) -> None:
        with self._lock:
            self._workers.pop(rank, None)
            lost = [number for number, step in self._steps.items() if rank in step.left]
        for number in lost:
            self._pass_on(rank, {"step": number, "code": 1, "error": f"task {rank} is gone"})

    def _run_step(self, peer: TaskPeer, asked: Message) -> None:
        """Start a step, and end it when its `srun` hangs up."""
        with self._lock:
            self._lock.wait_for(lambda: len(self._workers) == self._tasks, timeout=PATIENCE)
            number, self._numbers = self._numbers, self._numbers + 1
            try:
                ranks = self._chosen(int(asked.get("ntasks") or 0), asked.get("hosts") or ())
            except ValueError as error:
                peer.send(error=str(error), over=True, code=1)
                return
            self._steps[number] = _Step(peer, ranks, set(ranks))
            workers = [self._workers[rank] for rank in ranks]
        orders: dict[str, Any] = {name: asked[name] for name in ("argv", "cwd", "env", "files")}
        for procid, worker in enumerate(workers):
            with contextlib.suppress(OSError):  # then it is lost, which ends its part of the step
                worker.send(step=number, procid=procid, ntasks=len(ranks), **orders)
        while (message := peer.receive()) is not None:
            self._tell_all(number, message)
        self._tell_all(number, {"signal": int(signal.SIGTERM)})

    def _tell_all(self, number: int, message: Message) -> None:
        with self._lock:
            step = self._steps.get(number)
            ranks = step.left if step is not None else set()
            workers = [self._workers[rank] for rank in ranks if rank in self._workers]
        for worker in workers:
            with contextlib.suppress(OSError):
                worker.send(**{**message, "step": number})

    def _chosen(self, wanted: int, hosts: Sequence[str]) -> tuple[int, ...]:
        """Return the tasks that run a step: all, or the least busy ones; ValueError if there are too
        few."""
        there = [rank for rank in sorted(self._workers) if not hosts or self._hosts[rank] in hosts]
        wanted = wanted or len(there)
        if wanted > len(there) or not there:
            raise ValueError(f"{wanted} tasks are asked for, but the job has {len(there)} there")
        busy = Counter(rank for step in self._steps.values() for rank in step.left)
        return tuple(sorted(sorted(there, key=lambda rank: busy[rank])[:wanted]))
