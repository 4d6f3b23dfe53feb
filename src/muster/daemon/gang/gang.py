"""One job's tasks: from what was decided about it to what its processes are told, and back.

Decides without clock, socket or process: decisions, reports and messages go in; facts, orders and
signals come out at its `Hands`. Told once:

  start      order a task for every slot; `Started` when all of them run (or train, see `_is_up`)
  change     live: joiners begin beside the others, the roster raises the generation, leavers go;
             else: all are stopped, and all begin anew in their new places
  stop       ask for a checkpoint, SIGTERM, SIGKILL; `Preempted` or `Cancelled` when all are gone
  failure    a task is started again in its place while the budget lasts; then the gang ends as a whole
"""

import signal
from collections.abc import Iterable
from dataclasses import replace

from muster.daemon.gang.exits import blame, is_fault, words
from muster.daemon.gang.hands import Hands, Task
from muster.daemon.gang.images import GangImage, place_of
from muster.daemon.gang.stopping import Goal, Stopping
from muster.model.decision import Decision, Kind
from muster.model.event import (
    Cancelled,
    Ended,
    Migrated,
    Outcome,
    Preempted,
    Reshaped,
    Resized,
    Started,
    TasksLost,
)
from muster.model.job import Job, Role
from muster.model.placement import Placement, Slot
from muster.model.task import RuntimeSeen, TaskEnded, TaskExited, TaskId, TaskOrdered, TaskStarted
from muster.model.view import JobState, Phase
from muster.roster.acts import Act, Begin, Check, Finish, Kill, Tell, Terms, Wake
from muster.roster.roster import Roster
from muster.wire.messages import Failed, Hello, Message, StepDone

UNHEARD = 120.0
"""Seconds after which a job that could be resized live, and whose processes all run, is taken for one
that does not use the runtime: importing torch takes 3 s, on a busy machine 30."""
DEADLINE = 30.0
"""Seconds after which the runtime counts a silent member as gone."""
RESTARTS = 1_000
"""How often all workers of a job may be lost where its user sets no limit."""
STILLBORN = 3
"""Tasks in a row that are lost before they ever trained: one more, and their start is what is wrong."""

Completion = type[Started | Resized | Migrated]
_BY_KIND: dict[Kind, Completion] = {Kind.START: Started, Kind.RESIZE: Resized, Kind.MIGRATE: Migrated}
_BY_PHASE: dict[Phase, Completion] = {
    Phase.STARTING: Started,
    Phase.RESIZING: Resized,
    Phase.MIGRATING: Migrated,
}


class Gang(Stopping):
    """The tasks of one job, and what they shall become."""

    def __init__(self, job: Job, hands: Hands) -> None:
        super().__init__(hands)
        self.job = job
        self.generation = 0
        self.placement: Placement | None = None
        self.failures = self.losses = 0
        self.error = ""
        self.exit_code: int | None = None
        self._used: set[str] = set()
        self._orders: dict[str, int] = {}
        self._done: set[Slot] = set()
        """Slots whose task has ended well, of a job that does not use the runtime."""
        self._report: Completion | None = None
        """What to say when everything is as it was decided."""
        self._finished = False
        """The training is over, whatever was to become of the job."""
        self._closed = False
        """It was said how the job has ended."""
        self._next: Decision | None = None
        """A start that waits until the tasks of before are gone."""
        self._patient = False
        """A timer runs for a job that has not spoken yet."""
        self._fixed = False
        """It could have been resized live, but has never spoken."""
        self._stillborn = 0
        self._unplaced: list[Begin] = []
        """Tasks that the roster wants and that no slot was free for yet: it does not ask again."""

    # --- what is decided ---

    def carry_out(self, decision: Decision) -> None:
        """Begin what was decided; a job that is ending goes on ending, which will be heard of."""
        if decision.kind is Kind.PREEMPT:
            if self.goal in (Goal.RUN, Goal.BEGIN_ANEW):
                self._stop(Goal.PREEMPT)
            return
        if decision.kind is Kind.START and self.tasks:
            self._next = decision
            return
        if self.goal not in (Goal.RUN, Goal.VANISH):
            return
        self.generation, self.placement = decision.generation, decision.placement
        self._report = _BY_KIND[decision.kind]
        if decision.kind is Kind.START:
            self._begin()
        elif self.live:
            self._act(self._steer())
        else:
            self._stop(Goal.BEGIN_ANEW)
        self._settle()

    def cancel(self) -> None:
        """Its user wants it no more."""
        self._next = None
        if self.goal not in (Goal.CANCEL, Goal.FAIL, Goal.FINISH):
            self._stop(Goal.CANCEL)

    def lost_node(self, node: str, state: JobState) -> None:
        """Its tasks on a node are gone; the state says what that has made of the job."""
        self.generation = state.generation
        gone = [task for task in self.tasks.values() if task.slot.node == node]
        now = self.hands.now()
        for task in gone:
            self._drop(task, TaskExited(task.id, now, error=f"node {node} is lost"), lost=True)
        if state.phase is Phase.WAITING:
            self._report = None
            self._stop(Goal.VANISH, kill=True)
            return
        self.placement = state.placement
        for task in gone if self.live else ():
            self._act(self.roster.exited(task.name, f"node {node} is lost"))
        self._settle()

    # --- what happens ---

    def started(self, report: TaskStarted) -> None:
        """A task's process runs."""
        task = self._task(report.task)
        if task is not None:
            task.runs = True
            self._settle()

    def exited(self, report: TaskExited) -> None:
        """A task's process is gone."""
        task = self._task(report.task)
        if task is None:
            return
        if self.goal is not Goal.RUN:
            self._end_of_ending(task, report)
        elif not report.begun and report.code is None:
            self._order_again(task, report)
        else:
            self._end_of_running(task, report)
        self._settle()

    def hear(self, message: Message) -> None:
        """A task has said something."""
        if isinstance(message, Hello):
            if not self.live:
                self.live = True
                self.hands.note(RuntimeSeen(self.job.number, self.hands.now()))
            self._act(self.roster.hello(message))
        elif self.live:
            if isinstance(message, Failed):
                self.error = self.error or message.trace or message.error
            self._act(self.roster.heard(message))
        self._settle()

    def step(self, done: StepDone) -> bool:
        """A step was done, which happens often and seldom means anything; True if it does."""
        acts = self.roster.heard(done) if self.live else []
        self._act(acts)
        return bool(acts)

    # --- after a restart of the daemon ---

    def restore(self, state: JobState, image: GangImage) -> None:
        """Take up where an earlier daemon was; the executor will tell which tasks live."""
        self.generation, self.live = state.generation, image.live
        self.placement = state.target or state.placement
        self._used, self._orders, self._done = set(image.used), dict(image.orders), set(image.done)
        self.failures, self.losses = image.failures, image.losses
        self._report = _BY_PHASE.get(state.phase)
        self.tasks = {each.name: Task(each.task, each.name, each.slot) for each in image.tasks}
        self.roster = self._new_roster()
        self.error = image.error
        if image.stopping:
            self._stop(Goal.CANCEL)
        elif self.failures > self.job.program.failures:
            self._stop(Goal.FAIL)
        elif state.phase is Phase.PREEMPTING:
            self._stop(Goal.PREEMPT)
        elif state.phase is Phase.WAITING:
            self._stop(Goal.VANISH, kill=True)
        elif self._report in (Resized, Migrated) and not self.live and self._has_old_tasks():
            self._stop(Goal.BEGIN_ANEW)
        else:
            self._act(self._steer())
            self._fill()
            self._settle()

    def _has_old_tasks(self) -> bool:
        return any(task.id.generation < self.generation for task in self.tasks.values())

    # --- orders ---

    def _begin(self) -> None:
        """A task for every slot."""
        self.goal, self._done, self._finished = Goal.RUN, set(), False
        self._patient, self._stillborn, self._unplaced = False, 0, []
        self._stops += 1
        self._fill()
        self.roster = self._new_roster()
        self._act(self._steer())

    def _fill(self) -> None:
        """Order a task for every slot that has none and is not done; the roster orders replacements."""
        held = {task.slot for task in self.tasks.values()} | (set() if self.live else self._done)
        for slot in self.placement.slots if self.placement else ():
            if slot not in held and (not self.live or self._report is Started):
                self._order(self._new_name(slot.role), slot)

    def _new_roster(self) -> Roster:
        """One that waits until all tasks there are have spoken."""
        program = self.job.program
        restarts = RESTARTS if program.losses is None else program.losses
        terms = Terms(DEADLINE, program.sync, program.owners, replace=True, restarts=restarts)
        return Roster(terms, used=set(self._used), expected=set(self.tasks))

    def _steer(self) -> list[Act]:
        """Tell the roster what is wanted: so many tasks, and not those whose place is given up."""
        placed = self.placement or Placement(())
        leave = [task.name for task in self.tasks.values() if task.slot not in placed.slots]
        return self.roster.resize(placed.count(Role.WORKER), placed.count(Role.SERVER), leave=leave)

    def _new_name(self, role: Role) -> str:
        taken = (int(name.rpartition("-")[2]) for name in self._used if name.startswith(f"{role}-"))
        return f"{role}-{max(taken, default=-1) + 1}"

    def _order(self, name: str, slot: Slot) -> None:
        place = place_of(self.generation, slot)
        attempt = self._orders.get(place, 0)
        self._orders[place] = attempt + 1
        task_id = TaskId(self.job.number, self.generation, slot.role, slot.index, attempt)
        self._used.add(name)
        task = self.tasks[name] = Task(task_id, name, slot)
        self.hands.note(TaskOrdered(self.job.number, task.id, name, slot, self.hands.now()))
        self.hands.order(task)

    def _act(self, acts: Iterable[Act]) -> None:
        """Do what the roster wants."""
        for act in acts:
            if isinstance(act, Begin):
                self._place(act)
            elif isinstance(act, Tell):
                self.hands.tell(act.task, act.message)
            elif isinstance(act, Kill):
                self._unplaced = [each for each in self._unplaced if each.task != act.task]
                if act.task in self.tasks:
                    self.hands.signal(self.tasks[act.task].id, signal.SIGKILL)
            elif isinstance(act, Finish):
                self._end_training(act.error)
            else:
                self._wait(act, self.roster)

    def _place(self, act: Begin) -> None:
        """Put a task that the roster wants into a slot that has none.

        The members may tell of a lost task before its process is seen to end: the slot is free then.
        """
        held = {task.slot for task in self.tasks.values()}
        slots = self.placement.slots if self.placement else ()
        free = [slot for slot in slots if slot.role == act.role and slot not in held]
        if free and self.goal is Goal.RUN:
            self._order(act.task, free[0])
        else:
            self._unplaced.append(act)

    def _wait(self, act: Wake | Check, roster: Roster) -> None:
        def passed() -> None:
            if roster is self.roster:
                decide = roster.woken if isinstance(act, Wake) else roster.check_plan
                self._act(decide(act.generation))
                self._settle()

        self.hands.later(act.seconds, passed)

    # --- ends of tasks ---

    def _drop(self, task: Task, report: TaskExited, *, fault: bool = False, lost: bool = False) -> None:
        """The task is no more; with the last lines of its log where it failed."""
        del self.tasks[task.name]
        self.failures += fault
        self.losses += lost
        tail = self.hands.tail(task.id) if fault else ""
        self.hands.note(TaskEnded(self.job.number, report, self.hands.now(), tail, fault, lost))

    def _end_of_running(self, task: Task, report: TaskExited) -> None:
        """A task has ended while the job was to run."""
        leaving = self.placement is not None and task.slot not in self.placement.slots
        fault = is_fault(report) and not leaving
        lost = report.code is None and not fault and not leaving
        joined = task.name in self.roster.members
        self._drop(task, report, fault=fault, lost=lost)
        limit = self.job.program.losses
        if self.failures > self.job.program.failures or (limit is not None and self.losses > limit):
            self._fail(task, report)
        elif self.live:
            self._act(self.roster.exited(task.name, words(report)))
            if lost and not joined and self.goal is Goal.RUN:
                self._bear_again()
        elif report.code == 0:
            self._done.add(task.slot)
            self._finish_if_done()
        else:
            self._order(task.name, task.slot)

    def _order_again(self, task: Task, report: TaskExited) -> None:
        """The order was lost, with the daemon that gave it or on its way."""
        self._drop(task, report)
        self._stillborn += 1
        if self._stillborn <= STILLBORN * len(self.placement.slots if self.placement else ()):
            self._order(task.name, task.slot)
        else:
            self._fail(task, report)

    def _bear_again(self) -> None:
        """Try once more for a task that was lost before it ever trained."""
        self._stillborn += 1
        if self._stillborn <= STILLBORN:
            self._act(self._steer())

    def _end_of_ending(self, task: Task, report: TaskExited) -> None:
        """A task has ended while all were to end."""
        self._drop(task, report)
        if report.code == 0 and not self.live and not self._warned:
            self._done.add(task.slot)
            self._finished = self._are_workers_done()
        if self.live and self.goal in (Goal.PREEMPT, Goal.CANCEL):
            self._act(self.roster.exited(task.name, words(report)))
        elif self.goal is Goal.FINISH and is_fault(report):
            # What a script does after its training counts, too.
            self._blame(task, report)
            self.goal = Goal.FAIL
        if not any(each.slot.role is Role.WORKER for each in self.tasks.values()):
            self._hurry()

    def _finish_if_done(self) -> None:
        """All workers have ended well: the job has succeeded, and servers are of no more use."""
        if self._are_workers_done():
            self._end_training("")

    def _are_workers_done(self) -> bool:
        slots = self.placement.slots if self.placement else ()
        return all(slot in self._done for slot in slots if slot.role is Role.WORKER)

    def _end_training(self, error: str) -> None:
        """The training is over."""
        if self.goal in (Goal.PREEMPT, Goal.CANCEL):
            self._finished = not error
        elif error:
            self.error = self.error or error
            self._stop(Goal.FAIL)
        else:
            self.exit_code = 0
            self._stop(Goal.FINISH)

    def _fail(self, task: Task, report: TaskExited) -> None:
        """The gang ends as a whole."""
        self._blame(task, report)
        self._stop(Goal.FAIL)

    def _blame(self, task: Task, report: TaskExited) -> None:
        self.error = self.error or blame(report, self.hands.tail(task.id))
        self.exit_code = report.code

    def _conclude(self) -> None:
        """When all tasks are gone: say what has become of the job, or go on."""
        if self.tasks or self.goal is Goal.RUN or self._closed:
            return
        number, now = self.job.number, self.hands.now()
        if self.goal is Goal.BEGIN_ANEW:
            self._begin()
        elif self.goal is Goal.VANISH:
            decision, self._next = self._next, None
            if decision is not None:
                self.carry_out(decision)
        elif self.goal is Goal.CANCEL:
            self._closed = True
            self.hands.note(Cancelled(number, now))
        elif self.goal is Goal.PREEMPT and not self._finished:
            self.goal = Goal.VANISH
            self.hands.note(Preempted(number, self.generation, now))
        else:
            self._closed = True
            outcome = Outcome.FAILED if self.goal is Goal.FAIL else Outcome.SUCCEEDED
            self.hands.note(Ended(number, self.generation, outcome, now))

    # --- whether all is as decided ---

    def _settle(self) -> None:
        """After whatever happened: end, report that what was decided has come true, or give back."""
        if self.goal is not Goal.RUN:
            self._conclude()
            return
        unplaced, self._unplaced = self._unplaced, []
        for act in unplaced:
            self._place(act)
        if self._report is not None and (self._is_up() or self._is_short()):
            self.hands.note(self._report(self.job.number, self.generation, self.hands.now()))
            self._report, self._stillborn = None, 0
        if self._report is None and self._is_short():
            self._give_back()

    def _is_up(self) -> bool:
        """Whether every slot has a task that runs and, of a job that is resized live, that trains.

        What could be resized live is not up before it has said who its members are: it could not be
        resized before. A job that never says so is one of fixed size after all.
        """
        slots = set(self.placement.slots) if self.placement else set()
        runs = {task.slot for task in self.tasks.values() if task.runs}
        if self.live:
            here = {task.slot for task in self.tasks.values()}
            return here == slots and set(self.roster.members) == set(self.tasks)
        if not slots <= runs | self._done:
            return False
        if self.job.elastic and not self.job.restarts and not self._fixed:
            if not self._patient:
                self._patient, generation = True, self.generation
                self.hands.later(UNHEARD, lambda: self._fix(generation))
            return False
        return True

    def _fix(self, generation: int) -> None:
        """It does not use the runtime: from now on it is of the size it has."""
        if self.live or generation != self.generation or self.goal is not Goal.RUN:
            return
        self._fixed, placed = True, self.placement or Placement(())
        roles = tuple(
            replace(spec, gang=count, least=count, most=count)
            for spec in self.job.roles
            for count in (placed.count(spec.role),)
        )
        self.job = replace(self.job, roles=roles)
        self.hands.note(Reshaped(self.job.number, roles, self.hands.now()))
        self._settle()

    def _is_short(self) -> bool:
        """Whether members go on without a task that nobody will replace."""
        slots = self.placement.slots if self.placement else ()
        wanted = sum(self.roster.target.values())
        settled = bool(self.tasks) and set(self.roster.members) == set(self.tasks)
        return self.live and settled and wanted <= len(self.tasks) < len(slots)

    def _give_back(self) -> None:
        """Slots whose tasks are lost for good go back; without a whole gang the job has failed."""
        assert self.placement is not None
        held = {task.slot for task in self.tasks.values()}
        left = Placement(tuple(slot for slot in self.placement.slots if slot in held))
        if all(left.count(spec.role) >= spec.gang for spec in self.job.roles):
            self.generation, self.placement = self.generation + 1, left
            self.hands.note(TasksLost(self.job.number, self.generation, left, self.hands.now()))
        else:
            self.error = self.error or "more tasks were lost than the gang can do without"
            self._stop(Goal.FAIL)

    def _task(self, wanted: TaskId) -> Task | None:
        return next((task for task in self.tasks.values() if task.id == wanted), None)
