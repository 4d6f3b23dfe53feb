"""A reaction in progress: facts are folded into the state as they are noted, commands collected."""

from dataclasses import dataclass, replace
from typing import Any

from muster.daemon.gang.commands import Command, LaunchTask, SignalTask
from muster.daemon.gang.state import GangState, Sight, attempt_key, fold
from muster.model.event import (
    Migrated,
    Preempted,
    Requeued,
    Reshaped,
    Resized,
    Started,
    TasksLost,
)
from muster.model.job import Role
from muster.model.placement import Placement, Slot
from muster.model.task import Fact, TaskId, TaskOrdered
from muster.model.view import JobState, Phase
from muster.roster.roster import Roster


@dataclass(frozen=True, slots=True)
class Reaction:
    """The result of an event: facts to journal, then commands to carry out."""

    facts: tuple[Fact, ...]
    commands: tuple[Command, ...]
    sight: Sight


class ReactionDraft:
    """A gang while it reacts: it leaves the values it starts with unchanged, and is then dropped."""

    def __init__(self, gang: GangState, sight: Sight, job: JobState, now: float) -> None:
        self.gang, self.sight, self.job, self.now = gang, sight, job, now
        self._facts: list[Fact] = []
        self._commands: list[Command] = []
        self._copied: Roster | None = None

    def reaction(self) -> Reaction:
        """Return what was noted and commanded."""
        return Reaction(tuple(self._facts), tuple(self._commands), self.sight)

    def note(self, fact: Fact) -> None:
        """Note a fact, and continue with the state after it."""
        self._facts.append(fact)
        self.gang, self.job = fold(self.gang, fact), _after(self.job, fact)

    def do(self, *commands: Command) -> None:
        """Add commands for when the facts are in the journal."""
        self._commands += commands

    def see(self, **changes: Any) -> None:
        """Change fields of the sight."""
        self.sight = replace(self.sight, **changes)

    @property
    def key(self) -> int:
        """The job's number."""
        return self.job.number

    @property
    def placement(self) -> Placement:
        """Where the tasks should be."""
        return self.job.target or self.job.placement or Placement(())

    @property
    def roster(self) -> Roster:
        """The roster, as a copy that this reaction may change."""
        if self._copied is None or self._copied is not self.sight.roster:
            self._copied = self.sight.roster.copy()
            self.see(roster=self._copied)
        return self._copied

    def replace_roster(self, roster: Roster) -> None:
        """Start with another roster; timeouts of the previous one are ignored from now on."""
        self._copied = roster
        self.see(roster=roster, rosters=self.sight.rosters + 1)

    def order(self, name: str, slot: Slot) -> None:
        """Order a task for a slot."""
        generation = self.job.generation
        attempt = self.gang.orders.get(attempt_key(generation, name), 0)
        index = int(name.rpartition("-")[2])
        task = TaskId(self.key, generation, slot.role, index, attempt)
        self.note(TaskOrdered(self.key, task, slot, self.now))
        self.do(LaunchTask(task))

    def new_name(self, slot: Slot) -> str:
        """Return a name for a task in this slot.

        The runtime never reuses a name, so that a late message of a lost task is not taken for its
        successor's. Other programs know their rank by name, so theirs is kept.
        """
        if not self.gang.live:
            return f"{slot.role}-{slot.index}"
        taken = (name.rpartition("-") for name in self.gang.used)
        numbers = [int(number) for role, _, number in taken if role == slot.role]
        return f"{slot.role}-{max(numbers, default=-1) + 1}"

    def signal(self, number: int) -> None:
        """Signal every task."""
        self.do(*(SignalTask(each.task, number) for each in self.gang.tasks))

    @property
    def has_workers(self) -> bool:
        """Whether any worker has not ended."""
        return any(each.slot.role is Role.WORKER for each in self.gang.tasks)


def _after(job: JobState, fact: Fact) -> JobState:
    """Return the job as the view will have it, as far as a gang reads it."""
    match fact:
        case Started() | Resized() | Migrated():
            phase = Phase.PREEMPTING if job.phase is Phase.PREEMPTING else Phase.RUNNING
            return replace(job, phase=phase, placement=job.target or job.placement, target=None)
        case TasksLost():
            return replace(job, generation=fact.generation, placement=fact.placement)
        case Reshaped():
            return replace(job, job=replace(job.job, roles=fact.roles))
        case Preempted() | Requeued():
            return replace(job, phase=Phase.WAITING, placement=None, target=None)
    return job
