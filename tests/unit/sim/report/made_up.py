"""Results made up for tests: whole-number jobs on nodes of four devices, in order or shortest first."""

import random
from typing import Any

from muster.sim.result import ClusterSample, Fate, JobResult, Result, Stint

WIDE = 4
"""Devices of a node."""


def record(name: str = "a", **figures: Any) -> JobResult:
    """A job of one device submitted at 0, started at once, done after 10 s, unless told otherwise."""
    life: dict[str, Any] = {
        "user": "u", "pool": "p", "application": None, "devices": 1, "submitted": 0.0, "started": 0.0,
        "ended": 10.0, "fate": Fate.DONE, "alone": 10.0, "best": 10.0, "least": 10.0,
    }  # fmt: skip
    return JobResult(name, **(life | figures))


def sample(
    at: float, used: int = 0, capacity: int = 4, stranded: int = 0, waiting: int = 0
) -> ClusterSample:
    """The cluster from a moment on."""
    return ClusterSample(at, used, waiting, used, capacity, stranded)


def result(
    *records: JobResult,
    samples: tuple[ClusterSample, ...] = (),
    stints: tuple[Stint, ...] = (),
    policy: str = "fifo",
    seed: int = 1,
    **more: Any,
) -> Result:
    """A result of these."""
    figures: dict[str, Any] = {"configuration": {"trace": "made up"}, "hash": f"{policy}-{seed}"}
    return Result(
        seed=seed, policy=policy, records=records, samples=samples, stints=stints, **(figures | more)
    )


def made_up(
    policy: str, seed: int, *, jobs: int = 120, nodes: int = 16, shortest: bool = False
) -> Result:
    """Jobs of up to eight devices on a small cluster, first come first served or shortest first."""
    world = _World(random.Random(seed), jobs, nodes, shortest)
    return result(*world.played(), samples=tuple(world.samples), stints=tuple(world.stints),
                  policy=policy, seed=seed)  # fmt: skip


class _World:
    def __init__(self, rng: random.Random, jobs: int, nodes: int, shortest: bool) -> None:
        self.free = {f"node{i}": (1 << WIDE) - 1 for i in range(nodes)}
        self.shortest = shortest
        self.samples: list[ClusterSample] = []
        self.stints: list[Stint] = []
        self.coming = []
        at = 0.0
        for i in range(jobs):
            at += rng.expovariate(1 / 150)
            kind = rng.choice(("bert", "cifar10", "ncf", "imagenet", "yolov3"))
            devices = rng.choice((1, 1, 2, 4, 8))
            self.coming.append((at, f"{kind}-{i}", kind, devices, rng.lognormvariate(7.6, 1.1)))

    def played(self) -> list[JobResult]:
        """Walk from event to event; a job holds what it got until it ends."""
        waiting: list[tuple[float, str, str, int, float]] = []
        running: list[tuple[float, dict[str, int]]] = []
        records: list[JobResult] = []
        while self.coming or waiting or running:
            now = min([c[0] for c in self.coming[:1]] + [r[0] for r in running])
            for _, bits in [r for r in running if r[0] <= now]:
                for node, held in bits.items():
                    self.free[node] |= held
            running = [r for r in running if r[0] > now]
            while self.coming and self.coming[0][0] <= now:
                waiting.append(self.coming.pop(0))
            waiting.sort(key=lambda w: w[4] if self.shortest else w[0])
            while waiting and (bits := self._take(waiting[0][3])):
                at, name, kind, devices, length = waiting.pop(0)
                running.append((now + length, bits))
                self.stints += [
                    Stint(name, node, held, now, now + length) for node, held in bits.items()
                ]
                records.append(record(name, user=f"user{len(name) % 3}", pool=f"pool{devices % 3}",
                    application=kind, devices=devices, submitted=at, started=now, ended=now + length,
                    alone=length, best=length, least=length * devices, run=length,
                    held=length * devices, lost=30.0 * devices, paused=30.0))  # fmt: skip
            self._sample(now, len(running), len(waiting))
        return sorted(records, key=lambda r: r.submitted)

    def _take(self, devices: int) -> dict[str, int]:
        """Devices from the fullest nodes on, or none."""
        if sum(bits.bit_count() for bits in self.free.values()) < devices:
            return {}
        taken: dict[str, int] = {}
        for node in sorted(self.free, key=lambda n: (-self.free[n].bit_count(), n)):
            for bit in range(WIDE):
                if devices and self.free[node] & 1 << bit:
                    taken[node] = taken.get(node, 0) | 1 << bit
                    devices -= 1
            self.free[node] &= ~taken.get(node, 0)
        return taken

    def _sample(self, now: float, running: int, waiting: int) -> None:
        capacity = WIDE * len(self.free)
        counts = [bits.bit_count() for bits in self.free.values()]
        stranded = sum(c for c in counts if c < WIDE)
        self.samples.append(
            ClusterSample(now, running, waiting, capacity - sum(counts), capacity, stranded)
        )
