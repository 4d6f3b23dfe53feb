"""From a gang's task to the order that an executor carries out."""

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.daemon.gang.gang import Gang
from muster.daemon.gang.hands import Task
from muster.daemon.gang.outbox import log_name
from muster.executors.environment import (
    GangEnvironment,
    TaskPlace,
    base_environment,
    compose,
    free_port,
)
from muster.model.job import Job
from muster.model.task import TaskOrder
from muster.model.topology import each_bit

VIRTUAL = "cpu"
"""The device type of devices that are made of CPU cores."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all jobs of a daemon have in common."""

    folder: Path
    """For the jobs' own folders and checkpoints."""
    coordinator: str
    """host:port at which the runtime reports."""
    secret: str
    """From which each job's token is made, so that a daemon that is started again knows it."""
    hosts: Mapping[str, str]
    """The address of each node."""
    virtual: frozenset[str] = frozenset()
    """Nodes whose devices are made of CPU cores."""
    threads: int = 1
    """Of each worker on such a device: more would only be in each other's way."""

    def token(self, job: Job) -> str:
        """What a job's tasks show to be let in."""
        message = f"{job.number}/{job.name}".encode()
        return hmac.new(self.secret.encode(), message, hashlib.sha256).hexdigest()

    def folder_of(self, job: Job) -> Path:
        """A job's own folder."""
        return self.folder / f"{job.number}-{job.name}"


class Orders:
    """Makes orders; keeps for each run of a gang the port at which its workers meet."""

    def __init__(self, around: Surroundings, gangs: Callable[[int], Gang]) -> None:
        self._around, self._gangs = around, gangs
        self._ports: dict[int, tuple[int, int]] = {}
        """By job: number of the attempt with which the run began, port."""

    def __call__(self, number: int, task: Task) -> TaskOrder:
        """The order for a task of a job."""
        gang = self._gangs(number)
        environment = self._environment(gang, task)
        place = next(each for each in environment.tasks if each.name == task.name)
        job, program = gang.job, gang.job.program
        folder = self._around.folder_of(job)
        own = environment.of(place)
        own["MUSTER_CHECKPOINT"] = str(folder / "checkpoint")
        environ = compose(base_environment(os.environ), dict(program.environ), own)
        argv = ("/bin/sh", "-c", *job.command) if program.shell else job.command
        log = log_name(job.number, job.name, task.id)
        where = program.folder or str(folder / "work")
        return TaskOrder(task.id, task.slot.node, place.devices, argv, environ, where, log)

    def _environment(self, gang: Gang, task: Task) -> GangEnvironment:
        around, job = self._around, gang.job
        virtual = task.slot.node in around.virtual
        places = tuple(
            TaskPlace(
                each.slot.role,
                each.slot.index,
                each.name,
                each.slot.node,
                around.hosts[each.slot.node],
                tuple(each_bit(each.slot.bits)),
            )
            for each in gang.tasks.values()
        )
        return GangEnvironment(
            job=job.name,
            number=job.number,
            generation=gang.generation,
            tasks=places,
            master_port=self._port(gang),
            coordinator=around.coordinator,
            token=around.token(job),
            threads=around.threads if virtual else 0,
            virtual=virtual,
            attempt=gang.failures + gang.losses,
            restarts=job.program.failures,
            checkpoint_signal=job.program.checkpoint_signal,
        )

    def _port(self, gang: Gang) -> int:
        """One for each generation: the workers of the one before may not have let theirs go yet."""
        known = self._ports.get(gang.job.number)
        if known is None or known[0] != gang.generation:
            host = next(iter(self._around.hosts.values()))
            known = self._ports[gang.job.number] = gang.generation, free_port(host)
        return known[1]

    def forget(self, number: int) -> None:
        """A job is over."""
        self._ports.pop(number, None)
