"""Who shall be a member, decided without clock or socket: what happened goes in, what to do comes out.

The members are the truth: the generation that they report is taken over, whatever was planned.
A plan names the generation it changes; when that has moved on the plan is void and is made anew.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from muster.roster.acts import NO_ANSWER, Act, Begin, Check, Finish, Kill, Tell, Terms, Wake
from muster.wire.messages import (
    ROLES,
    Changed,
    Ended,
    Failed,
    Hello,
    Member,
    Message,
    Plan,
    Ready,
    StepDone,
    Stop,
)

CLEAN_EXIT = "exit code 0"

DEADLINES = 3
"""Of a plan's deadlines until it should be taken up: one to build it, one for the step under way, and
one for the step at which all agree."""


@dataclass(slots=True)
class _Task:
    role: str
    address: str = ""
    device: str = ""
    ready: bool = False
    leaving: bool = False
    """It was told to go, or has said that it does."""
    unwanted: bool = False
    """It goes with the next plan that can be made without it."""
    holds: bool = False
    """It has said that it has the whole state."""
    finished: bool = False
    gone: str = ""
    """How its process ended."""
    lost: bool = False
    named: bool = False
    """A plan has named it."""
    joined: bool = False
    """The members have named it."""
    generation: int = 0
    """What its last `Hello` said."""

    @property
    def alive(self) -> bool:
        return not (self.leaving or self.finished or self.gone or self.lost)

    @property
    def stays(self) -> bool:
        return self.alive and not self.unwanted


@dataclass(slots=True)
class Roster:
    """The tasks of one job, and what they shall become."""

    terms: Terms = field(default_factory=Terms)
    used: set[str] = field(default_factory=set)
    """Names that are taken for ever."""
    expected: set[str] = field(default_factory=set)
    """Tasks of an earlier coordinator that live: nothing is decided before all have connected."""
    generation: int = 0
    """What the members have reported; 0 while there are none."""
    members: tuple[str, ...] = ()
    over: Finish | None = None
    lost: dict[str, str] = field(default_factory=dict)
    """Tasks that went without having said so, and how."""
    _tasks: dict[str, _Task] = field(default_factory=dict)
    _asked: dict[str, int] | None = None
    """How many of each role the user wants; None: as many as there are."""
    _missed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROLES, 0))
    """Tasks that were lost since then and are not replaced."""
    _plan: Plan | None = None
    _highest: int = 0
    """The highest generation ever planned or reported."""
    _adopted: int = 0
    """The highest generation ever reported."""
    retired: set[str] = field(default_factory=set)
    """Tasks from before the last restart."""
    _restarts: int = 0
    _patience: int = -1
    """The generation for whose joiners there was a wait; see `_wait_once`."""
    _waited_out: int = -1
    _refused: int = 0
    """Plans after this generation that were not taken up."""
    _stopping: str = ""
    _leave: bool = False

    def resize(
        self, workers: int, servers: int | None = None, leave: Collection[str] = ()
    ) -> list[Act]:
        """Want so many workers (and servers; None: as before) from now on.

        Who is named in `leave` goes, for good; others come in their place where there would be too few.
        Who goes beyond that is decided as ever: the newest.
        """
        before = self._asked or self._counts()
        self._asked = {"worker": workers, "server": before["server"] if servers is None else servers}
        self._missed = dict.fromkeys(ROLES, 0)
        for name in leave:
            if name in self._tasks or name in self.expected:
                self._know(name).unwanted = True
        return self._steer()

    def copy(self) -> "Roster":
        """Return a roster that can change without this one."""
        return replace(
            self,
            used=set(self.used),
            expected=set(self.expected),
            lost=dict(self.lost),
            retired=set(self.retired),
            _tasks={name: replace(task) for name, task in self._tasks.items()},
            _missed=dict(self._missed),
        )

    def is_news(self, done: StepDone) -> bool:
        """Whether a step changes anything: steps come often and seldom do."""
        task = self._tasks.get(done.task)
        return task is not None and task.holds != done.holds

    def stop(self, reason: str, *, leave: bool = False) -> list[Act]:
        """Want no more: all end after their step; `leave`: their processes with it."""
        self._stopping, self._leave = reason or "stopped", leave
        acts: list[Act] = []
        for name, task in self._tasks.items():
            if task.alive and (task.joined or task.named):
                acts.append(Tell(name, Stop(self._stopping, leave)))
            elif task.alive:
                # It waits for a plan and has nothing to bring to an end.
                task.leaving = True
                acts.append(Kill(name))
        return acts + self._conclude()

    def hello(self, hello: Hello) -> list[Act]:
        """A task has connected, for the first time or again."""
        if hello.task in self.retired:
            return [Kill(hello.task)]
        task = self._know(hello.task, hello.role)
        if task.leaving and not hello.generation:
            return [Kill(hello.task)]  # it was dismissed before it was born
        task.address, task.generation = hello.address, hello.generation
        task.device = hello.device
        task.ready = task.ready or hello.ready or hello.generation > 0
        self.expected.discard(hello.task)
        self._highest = max(self._highest, hello.generation)
        again: list[Act] = []
        if self._stopping:
            again.append(Tell(hello.task, Stop(self._stopping, self._leave)))
        elif self._plan and hello.task in self._concerned(self._plan):
            again.append(Tell(hello.task, self._plan))
        return again + self._steer()

    def heard(self, message: Message) -> list[Act]:
        """A task has said something."""
        if isinstance(message, Failed):
            return self._finish(f"{message.task}: {message.error}")
        if isinstance(message, StepDone):
            return self._note_holder(message)
        if not isinstance(message, Ready | Changed | Ended) or message.task not in self._tasks:
            return []
        if isinstance(message, Changed):
            return self._adopt(message)
        task = self._tasks[message.task]
        if isinstance(message, Ready):
            task.ready = True
        else:
            task.finished = message.how == "finished"
            task.leaving = True
        return self._steer()

    def exited(self, name: str, how: str) -> list[Act]:
        """A task's process has ended; `how` in words ("exit code 1", "signal 9")."""
        was_expected = name in self.expected
        self.expected.discard(name)
        if name in self.lost:
            self.lost[name] = how
        if name not in self.retired:
            task = self._know(name)
            task.gone = how
            if how == CLEAN_EXIT and name not in self.members:
                # Its good-bye may have been said while no coordinator was there to hear it; or its
                # script never trains, and would not when started again.
                known = task.leaving or task.unwanted or task.joined or was_expected
                self._missed[task.role] += not known
                task.leaving = True
            if not task.leaving:
                self._lose(name)
        return self._steer()

    def woken(self, generation: int) -> list[Act]:
        """The time of a `Wake` has passed."""
        self._waited_out = generation
        return self._steer()

    def check_plan(self, generation: int) -> list[Act]:
        """The time of a `Check` has passed: a plan that was not taken up is made anew, once; then its
        joiners are given up, since members alone have agreed before."""
        if self.over or self._plan is None or self._plan.generation != generation:
            return []
        joiners = [one.task for one in self._plan.members if one.task not in self.members]
        self._plan, self._refused = None, self._refused + 1
        if self._refused < 2 or not self.members:
            return self._steer()
        for name in joiners:
            self._lose(name)
        return [*(Kill(name) for name in joiners), *self._steer()]

    # --- what follows from what was heard ---

    def _adopt(self, change: Changed) -> list[Act]:
        """The members say who they are: that is so, whatever was planned."""
        if change.generation <= self._adopted:
            return []
        staying = {one.task for one in self._plan.members} if self._plan else set()
        missing = set(self.members) - set(change.members)
        # Of earlier losses an earlier coordinator has heard. Who should have stayed was lost just now.
        known = {name for name in change.lost if name in self._tasks or name in self.expected}
        lost = sorted(known | (missing & staying))
        self.expected.difference_update(lost)
        leavers = missing - set(lost)
        self.generation, self.members = change.generation, change.members
        self._adopted, self._plan, self._refused = change.generation, None, 0
        self._highest = max(self._highest, change.generation)
        for name in change.members:
            task = self._know(name)
            task.ready = task.joined = True
        for name in leavers:
            self._tasks[name].leaving = True
        # A peer that hangs is out as well; woken later, it would only hold its device.
        kills: list[Act] = [Kill(name) for name in lost if not self._know(name).gone]
        for name in lost:
            self._lose(name)
        return kills + self._steer()

    def _note_holder(self, done: StepDone) -> list[Act]:
        """A leaver may wait for one that has the state as well."""
        task = self._tasks.get(done.task)
        if task is None or task.holds == done.holds:
            return []
        task.holds = done.holds
        return self._steer() if any(self._tasks[name].unwanted for name in self.members) else []

    def _lose(self, name: str) -> None:
        task = self._tasks[name]
        if task.lost:
            return
        task.lost = True
        self.lost[name] = task.gone or NO_ANSWER
        if task.unwanted:
            return  # nobody counts on it
        # A task that never was a member is not tried again and again: its start may be what is wrong.
        if not (self.terms.replace and task.joined):
            self._missed[task.role] += 1

    def _steer(self) -> list[Act]:
        """Whatever is needed to come nearer to what is wanted."""
        ending = self._conclude()
        if ending or self._is_settled() or self._waits_for_members():
            return ending
        wanted = self._wanted()
        acts = self._dismiss(wanted) + self._begin_missing(wanted)
        if self._plan or not wanted or len(wanted) < sum(self.target.values()):
            return acts
        named = self._with_donors(wanted)
        if set(named) != set(self.members) and all(map(self._can_join, named)):
            acts += self._make_plan(named)
        return acts

    def _is_settled(self) -> bool:
        """Nothing is to be steered, or nobody has said whereto."""
        return bool(self.over or self._stopping or self._asked is None or self._any_finished())

    def _waits_for_members(self) -> bool:
        """A member is gone or out of sight: the others will find out and say who they are."""
        joiners = {one.task for one in self._plan.members} - set(self.members) if self._plan else set()
        if any(not self._tasks[name].alive for name in joiners):
            self._plan = None
        ahead = any(task.alive and task.generation > self._adopted for task in self._tasks.values())
        unseen = any(
            not self._tasks[name].alive or not self._tasks[name].address for name in self.members
        )
        return bool(self.expected) or ahead or unseen

    def _wanted(self) -> list[str]:
        """Members stay before joiners come, the older before the newer."""
        names: list[str] = []
        joiners = sorted(self._tasks.keys() - set(self.members), key=_number)
        for role, count in self.target.items():
            of_role = [
                name
                for name in (*self.members, *joiners)
                if self._tasks[name].stays and self._tasks[name].role == role
            ]
            names += of_role[:count]
        return names

    def _with_donors(self, wanted: list[str]) -> list[str]:
        """Leavers stay for one more generation where nobody else is known to have the state: a plan
        with none of its holders would begin the training anew."""
        workers = [name for name in wanted if self._tasks[name].role == "worker"]
        if any(self._tasks[name].holds for name in workers):
            return wanted
        leavers = [name for name in self.members if self._tasks[name].unwanted]
        donors = [name for name in leavers if self._tasks[name].role == "worker"]
        return [*workers, *donors, *(name for name in wanted if name not in workers)]

    @property
    def target(self) -> dict[str, int]:
        """How many of each role there shall be: what was asked for, less what was lost for good."""
        asked = self._asked or dict.fromkeys(ROLES, 0)
        return {role: max(0, asked[role] - self._missed[role]) for role in ROLES}

    def _counts(self) -> dict[str, int]:
        roles = [self._tasks[name].role for name in self.members]
        return {role: roles.count(role) for role in ROLES}

    def _begin_missing(self, wanted: list[str]) -> list[Act]:
        acts: list[Act] = []
        for role, count in self.target.items():
            have = sum(self._tasks[name].role == role for name in wanted)
            for _ in range(count - have):
                name = self._new_name(role)
                self._know(name, role)
                acts.append(Begin(name, role))
        return acts

    def _dismiss(self, wanted: list[str]) -> list[Act]:
        """Joiners that are wanted no more, before any plan has named them."""
        named = {one.task for one in self._plan.members} if self._plan else set()
        spare = [
            name
            for name, task in self._tasks.items()
            if task.alive and name not in self.members and name not in wanted and name not in named
        ]
        for name in spare:
            self._tasks[name].leaving = True
        return [Kill(name) for name in spare]

    def _can_join(self, name: str) -> bool:
        task = self._tasks[name]
        return task.ready and bool(task.address)

    def _make_plan(self, wanted: list[str]) -> list[Act]:
        self._highest += 1
        members = tuple(
            Member(name, task.role, task.address, device=task.device)
            for name, task in ((name, self._tasks[name]) for name in wanted)
        )
        terms = self.terms
        self._plan = Plan(
            self._highest,
            self.generation,
            members,
            terms.deadline,
            terms.sync,
            terms.owners,
            balance=terms.balance,
        )
        for name in wanted:
            self._tasks[name].named = True
        told: list[Act] = [Tell(name, self._plan) for name in self._concerned(self._plan)]
        return [*told, Check(DEADLINES * terms.deadline, self._highest)]

    def _concerned(self, plan: Plan) -> list[str]:
        """Those who stay, those who come, and those who leave."""
        return list(dict.fromkeys((*(one.task for one in plan.members), *self.members)))

    # --- the end ---

    def _conclude(self) -> list[Act]:
        """Whether the job is over, or must begin again."""
        if self.over or self.expected:
            return []
        workers = self._of(self._tasks, "worker")
        if any(task.alive for task in self._of(self.members or self._tasks, "worker")):
            return []
        if self._stopping or self._any_finished():
            return self._finish("" if self._any_finished() else self._stopping)
        lost = [task for task in workers if task.lost]
        if workers and all(task.gone == CLEAN_EXIT for task in lost or workers):
            return self._finish("")  # a script that trains without telling, or not at all
        if self._waited_out != self.generation and any(task.alive and task.named for task in workers):
            return self._wait_once()
        return self._restart() if lost else []

    def _wait_once(self) -> list[Act]:
        """A joiner that a plan has named may be a member by now and just about to say so."""
        if self._patience == self.generation:
            return []
        self._patience = self.generation
        # Who has not answered for the deadline counts as gone; so does the joiner.
        return [Wake(self.terms.deadline, self.generation)]

    def _restart(self) -> list[Act]:
        """All workers are gone: new tasks begin, from the last checkpoint."""
        ends = [f"{name} ({task.gone or NO_ANSWER})" for name, task in self._tasks.items() if task.lost]
        if self._restarts >= self.terms.restarts:
            return self._finish(f"all workers are gone: {', '.join(ends[-8:])}")
        self._restarts += 1
        past = [name for name, task in self._tasks.items() if not task.alive or name in self.members]
        left = [name for name in past if not self._tasks[name].gone]
        for name in past:
            del self._tasks[name]
        self.retired.update(past)
        self.generation, self.members, self._plan = 0, (), None
        self._missed = dict.fromkeys(ROLES, 0)
        return [*(Kill(name) for name in left), *self._steer()]

    def _finish(self, error: str) -> list[Act]:
        if self.over:
            return []
        self.over = Finish(error)
        joiners = [name for name, task in self._tasks.items() if task.alive and not task.joined]
        for name in joiners:
            self._tasks[name].leaving = True
        return [*(Kill(name) for name in joiners), self.over]

    def _any_finished(self) -> bool:
        return any(task.finished for task in self._tasks.values() if task.role == "worker")

    def _of(self, names: Iterable[str], role: str) -> list[_Task]:
        return [self._tasks[name] for name in names if self._tasks[name].role == role]

    def _know(self, name: str, role: str = "") -> _Task:
        self.used.add(name)
        if name not in self._tasks:
            self._tasks[name] = _Task(role or name.rpartition("-")[0] or "worker")
        return self._tasks[name]

    def _new_name(self, role: str) -> str:
        numbers = [_number(name) for name in self.used if name.startswith(f"{role}-")]
        return f"{role}-{max(numbers, default=-1) + 1}"


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0
