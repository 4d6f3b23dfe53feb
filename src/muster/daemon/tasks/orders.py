"""Makes the order with which an executor starts a task."""

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.daemon.gang.state import GangState
from muster.executors.environment import (
    GangEnvironment,
    TaskPlace,
    base_environment,
    compose,
    free_row,
)
from muster.model.job import Job
from muster.model.task import TaskId, TaskOrder, TaskOrdered
from muster.model.topology import each_bit
from muster.model.view import JobState

VIRTUAL = "cpu"
"""The type of devices made of CPU cores."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the tasks of all jobs have in common."""

    folder: Path
    """For the jobs' own folders and checkpoints."""
    coordinator: str
    """host:port to which the runtime reports."""
    secret: str
    """Each job's token is derived from it, so that a restarted daemon knows them all."""
    hosts: Mapping[str, str]
    """The address of each node."""
    virtual: frozenset[str] = frozenset()
    """Nodes whose devices are made of CPU cores."""
    threads: int = 1
    """Of each worker on such a device: more would compete for its core."""

    def token(self, job: Job) -> str:
        """Return the token with which a job's tasks authenticate."""
        message = f"{job.number}/{job.name}".encode()
        return hmac.new(self.secret.encode(), message, hashlib.sha256).hexdigest()

    def folder_of(self, job: Job) -> Path:
        """Return a job's own folder."""
        return self.folder / f"{job.number}-{job.name}"


class Orders:
    """Makes orders, and keeps the port at which the workers of a generation meet."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._ports: dict[int, tuple[int, int]] = {}
        """By job: generation, port."""

    def make(self, state: JobState, gang: GangState, wanted: TaskId) -> TaskOrder | None:
        """Return the order for a task, None if it has ended meanwhile."""
        task = gang.find(wanted)
        if task is None:
            return None
        environment = self._environment(state, gang, task)
        place = next(each for each in environment.tasks if each.name == wanted.name)
        job, program = state.job, state.job.program
        folder = self._around.folder_of(job)
        own = environment.of(place)
        own["MUSTER_CHECKPOINT"] = str(folder / "checkpoint")
        base = {**base_environment(os.environ), **dict(program.origin.environ)}
        environ = compose(base, dict(program.environ), own)
        argv = ("/bin/sh", "-c", *job.command) if program.shell else job.command
        where = program.folder or str(folder / "work")
        log = log_name(job, wanted)
        return TaskOrder(
            wanted,
            task.slot.node,
            place.devices,
            argv,
            environ,
            where,
            log,
            own_folder=not program.folder,
        )

    def _environment(self, state: JobState, gang: GangState, task: TaskOrdered) -> GangEnvironment:
        around, job = self._around, state.job
        virtual = task.slot.node in around.virtual
        places = tuple(
            TaskPlace(
                each.slot.role,
                each.slot.index,
                each.task.name,
                each.slot.node,
                around.hosts[each.slot.node],
                tuple(each_bit(each.slot.bits)),
            )
            for each in gang.tasks
        )
        return GangEnvironment(
            job=job.name,
            number=job.number,
            generation=state.generation,
            tasks=places,
            master_port=self._port(state),
            coordinator=around.coordinator,
            token=around.token(job),
            threads=around.threads if virtual else 0,
            virtual=virtual,
            attempt=gang.failures + gang.losses,
            restarts=job.program.failures,
            checkpoint_signal=job.program.checkpoint_signal,
        )

    def _port(self, state: JobState) -> int:
        """Return a port per generation: workers of the previous one may not have closed theirs yet."""
        known = self._ports.get(state.number)
        if known is None or known[0] != state.generation:
            host = next(iter(self._around.hosts.values()))
            # The master's, and one for each task: see `GangEnvironment`.
            count = 1 + len(state.held())
            known = self._ports[state.number] = state.generation, free_row(host, count)
        return known[1]

    def forget(self, number: int) -> None:
        """Drop what is kept of a job that has ended."""
        self._ports.pop(number, None)


def log_name(job: Job, task: TaskId) -> str:
    """Return the name of a task's log: `<job>/<generation>/<task>.log`."""
    return f"{job.number}-{job.name}/{task.generation}/{task.name}.log"
