"""Makes the order with which an executor starts a task."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from muster.daemon.gang.state import GangState
from muster.daemon.tasks.job_secrets import JobSecrets
from muster.daemon.tasks.node_place import NodePlace
from muster.daemon.tasks.ports import PortRows
from muster.daemon.tasks.slurm_variables import slurm_variables
from muster.executors.accounts import TOGETHER, Submitters, UnknownUserError, account_of
from muster.executors.environment import (
    GangEnvironment,
    TaskPlace,
    base_environment,
    compose,
)
from muster.model.job import Job, Need, Role
from muster.model.task import LEASE, WORK, TaskExited, TaskId, TaskOrder, TaskOrdered
from muster.model.topology import each_bit
from muster.model.view import JobState

IN_HOME = Path(".local/share/muster")
"""Where the jobs' folders are in a user's home."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the tasks of all jobs have in common."""

    folder: Path
    """For the jobs' own folders and checkpoints."""
    coordinator: str
    """host:port to which the runtime reports."""
    secrets: JobSecrets
    """Of the jobs' tokens."""
    places: Callable[[str], NodePlace] = lambda node: NodePlace("127.0.0.1")
    """Where the tasks of a node are reached. Asked for each order: nodes come and go."""
    threads: int = 1
    """Of each worker on such a device: more would compete for its core."""
    submitters: Submitters = TOGETHER
    """Whom tasks run as."""

    def folder_of(self, job: Job) -> Path:
        """Return a job's own folder: of another user it is in that user's home, not among our files."""
        name = f"{job.number}-{job.name}"
        user = self.submitters.user_of(job.user)
        if user:
            with contextlib.suppress(UnknownUserError):  # deleted since: the executor refuses its tasks
                return account_of(user).home / IN_HOME / self.secrets.site / name
        return self.folder / name


@dataclass(slots=True)
class _Meeting:
    """A gang as it is, and how its tasks see it on nodes that are alike. The orders of a gang are made
    one after the other: each by itself would look at all tasks again."""

    state: JobState
    gang: GangState
    seen: dict[tuple[bool, str], GangEnvironment] = field(default_factory=dict)
    """By what differs between nodes: whether devices are made of cores, and the network interface."""


class Orders:
    """Makes orders, and keeps the ports at which the tasks of a generation meet."""

    def __init__(self, around: Surroundings, rows: PortRows | None = None) -> None:
        self._around, self._rows = around, rows or PortRows(None)
        self._meeting: _Meeting | None = None

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
        own["MUSTER_CHECKPOINT"] = program.checkpoint or str(folder / "checkpoint")
        own["MUSTER_USER"] = job.user
        own["MUSTER_ATTEMPT"] = str(gang.runs)
        if program.resume_from:
            own["MUSTER_RESUME_FROM"] = program.resume_from
        if program.until:
            own["MUSTER_UNTIL"] = program.until
        own |= _sweep_environment(job)
        if job.batch and job.largest_batch:
            own["MUSTER_BATCH"] = f"{job.batch}..{job.largest_batch}"
        if program.slurm_env:
            own |= slurm_variables(job, environment, place, own)
        user = self._around.submitters.user_of(job.user)
        inherited = base_environment(os.environ, same_user=not user)
        base = {**inherited, **dict(program.origin.environ)}
        environ = compose(base, dict(program.environ), own)
        argv = ("/bin/sh", "-c", *job.command) if program.shell else job.command
        own_folder = bool(program.ship) or not program.folder
        where = str(folder / WORK / program.folder) if own_folder else program.folder
        log = log_name(job, wanted)
        need = _stated_need(job, wanted.role)
        master = place == environment.master
        return TaskOrder(
            wanted,
            task.slot.node,
            place.devices,
            argv,
            environ,
            where,
            log,
            own_folder=own_folder,
            memory=need.memory,
            millicores=need.millicores,
            user=user,
            private=str(folder),
            ship=program.ship,
            lease=LEASE if program.at_most_once else 0.0,
            ports=(environment.master_port,) if master else (),
            terminal=program.interactive,
            container=program.container,
        )

    def _environment(self, state: JobState, gang: GangState, task: TaskOrdered) -> GangEnvironment:
        own, last = self._around.places(task.slot.node), self._meeting
        if last is None or last.state is not state or last.gang is not gang:
            last = self._meeting = _Meeting(state, gang)
        alike = (own.virtual, own.interface)
        if alike not in last.seen:
            last.seen[alike] = self._seen_from(own, state, gang)
        return last.seen[alike]

    def _seen_from(self, own: NodePlace, state: JobState, gang: GangState) -> GangEnvironment:
        """Return what a gang looks like to its tasks on a node."""
        around, job = self._around, state.job
        nodes = {each.slot.node: around.places(each.slot.node) for each in gang.tasks}
        meeting = GangEnvironment(
            job=job.name,
            number=job.number,
            generation=state.generation,
            tasks=tuple(_task_place(each, nodes[each.slot.node]) for each in gang.tasks),
            master_port=0,
            coordinator=around.coordinator,
            token=around.secrets.token(state, gang),
            threads=around.threads if own.virtual else 0,
            virtual=own.virtual,
            attempt=gang.failures + gang.losses,
            restarts=job.program.failures,
            checkpoint_signal=job.program.checkpoint_signal,
            interface=own.interface,
        )
        # The master's, and one for each task: see `GangEnvironment`.
        count = 1 + len(state.held())
        master = nodes[meeting.master.node]
        row = self._rows.of(state.number, state.generation, count, master, gang.restarts)
        return replace(meeting, master_port=row.first)

    def note_exit(self, report: TaskExited) -> None:
        """Give a job other ports after another process has taken one of its own."""
        if report.port:
            self._meeting = None
            self._rows.forget(report.task.number)

    def forget(self, number: int) -> None:
        """Drop what is kept of a job that has ended."""
        if self._meeting is not None and self._meeting.state.number == number:
            self._meeting = None
        self._rows.forget(number)


def _task_place(task: TaskOrdered, node: NodePlace) -> TaskPlace:
    slot = task.slot
    devices = tuple(each_bit(slot.bits))
    return TaskPlace(slot.role, slot.index, task.task.name, slot.node, node.host, devices)


def _sweep_environment(job: Job) -> dict[str, str]:
    """What a member of a sweep is told of itself; empty: it is none."""
    place = job.sweep
    if place is None:
        return {}
    params = {f"MUSTER_SWEEP_{name.upper()}": text for name, text in place.params}
    own = {"": place.name, "_NUMBER": str(place.sweep), "_INDEX": place.index, "_SIZE": str(place.size)}
    return {**params, **{f"MUSTER_SWEEP{name}": text for name, text in own.items()}}


def _stated_need(job: Job, role: Role) -> Need:
    """What the user stated for tasks of a role; a slot's need may be the planner's estimate."""
    return next((spec.need for spec in job.roles if spec.role is role), Need())


def log_name(job: Job, task: TaskId) -> str:
    """Return the name of a task's log: `<job>/<generation>/<task>.log`."""
    return f"{job.number}-{job.name}/{task.generation}/{task.name}.log"
