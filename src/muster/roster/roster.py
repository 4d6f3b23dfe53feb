"""Decides who is a member, without clock or socket: events in, commands out.

The members have the last word: the formation they report is adopted, whatever was planned. A plan names
the formation it changes; once that is outdated, the plan is void and replaced.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from muster.roster.acts import (
    NO_ANSWER,
    Act,
    Begin,
    Check,
    Finish,
    Kill,
    Sharing,
    Tell,
    Terms,
    Wake,
)
from muster.wire.tasks.messages import (
    ROLES,
    Changed,
    Failed,
    Hello,
    Member,
    MemberPlan,
    MembersLost,
    Message,
    Ready,
    StepDone,
    Stop,
    TaskBusy,
    TrainingEnded,
    UseBatch,
    UseEnding,
)

CLEAN_EXIT = "exit code 0"

JOIN_FAILURES = 3
"""Newcomers in a row that may fail before their first step; then no more are started."""

CLOSE = 0.02
"""Shares of the parameters that differ by less are alike: links are known within some per cent."""

DEADLINES = 3
"""Deadlines for a plan to take effect: one to build it, one for the current step, one for the step at
which all agree."""


@dataclass(slots=True)
class _Task:
    role: str
    address: str = ""
    device: str = ""
    ready: bool = False
    leaving: bool = False
    """It was told to leave, or has said that it does."""
    unwanted: bool = False
    """It leaves with the next plan that can do without it."""
    holds: bool = False
    """It has reported the whole state."""
    finished: bool = False
    gone: str = ""
    """How its process ended."""
    lost: bool = False
    error: str = ""
    """What its user code failed with before its first step."""
    stepped: bool = False
    """It has done a step of its own."""
    named: bool = False
    """A plan has named it."""
    joined: bool = False
    """The members have reported it."""
    formation: int = 0
    """From its last `Hello`."""

    @property
    def alive(self) -> bool:
        return not (self.leaving or self.finished or self.gone or self.lost)

    @property
    def stays(self) -> bool:
        return self.alive and not self.unwanted


@dataclass(slots=True)
class Roster:
    """The tasks of one job, and the way to the wanted ones."""

    terms: Terms = field(default_factory=Terms)
    used: set[str] = field(default_factory=set)
    """Names that are never used again."""
    expected: set[str] = field(default_factory=set)
    """Live tasks of an earlier coordinator: nothing is decided before all have connected."""
    formation: int = 0
    """As reported by the members; 0 while there are none."""
    members: tuple[str, ...] = ()
    over: Finish | None = None
    lost: dict[str, str] = field(default_factory=dict)
    """Tasks that ended unannounced, and how."""
    _tasks: dict[str, _Task] = field(default_factory=dict)
    _asked: dict[str, int] | None = None
    """Wanted tasks by role; None: as many as there are."""
    _missed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROLES, 0))
    """Tasks lost since then and not replaced."""
    _plan: MemberPlan | None = None
    _highest: int = 0
    """The highest formation planned or reported so far."""
    _adopted: int = 0
    """The highest formation reported so far."""
    retired: set[str] = field(default_factory=set)
    """Tasks from before the last restart."""
    _restarts: int = 0
    _patience: int = -1
    """The formation whose joiners were waited for; see `_wait_once`."""
    _waited_out: int = -1
    _refused: int = 0
    """Plans for this formation that did not take effect."""
    _stopping: str = ""
    _leave: bool = False
    _join_failures: int = 0
    """Newcomers in a row that failed before their first step."""
    refusal: str = ""
    """Why no more workers are started; empty: they are."""
    _busy: set[str] = field(default_factory=set)
    """Members that do something long between two steps: plans wait for them."""
    _batch: UseBatch | None = None
    ending: UseEnding | None = None
    """What ends the training, if that was changed while it runs."""
    """The last order about the global batch."""
    sharing: Sharing | None = None
    """How the wanted tasks are to share the work; None: they decide by themselves."""
    _obeyed: Sharing | None = None
    """The one that needs no plan: the members share so, or would not."""

    def resize(
        self, workers: int, servers: int | None = None, leave: Collection[str] = ()
    ) -> list[Act]:
        """Set the wanted number of workers and servers (None: as before).

        Tasks in `leave` go for good, and are replaced if too few remain; beyond that the newest go.
        """
        if servers is None:
            servers = self._asked["server"] if self._asked else len(self._of(self.members, "server"))
        self._asked = {"worker": workers, "server": servers}
        self._missed = dict.fromkeys(ROLES, 0)
        for name in leave:
            if name in self._tasks or name in self.expected:
                self._know(name).unwanted = True
        return self._steer()

    def use_batch(self, batch: int, order: int) -> list[Act]:
        """Set the global batch; later orders have higher numbers."""
        if self._batch is not None and (order <= self._batch.order or batch == self._batch.batch):
            return []
        self._batch = UseBatch(batch, order)
        return [Tell(name, self._batch) for name, task in self._tasks.items() if task.alive]

    def use_ending(self, ending: UseEnding) -> list[Act]:
        """Set what ends the training."""
        self.ending = ending
        return [Tell(name, ending) for name, task in self._tasks.items() if task.alive]

    def share(self, sharing: Sharing | None) -> list[Act]:
        """Set how the wanted tasks share the work; members that do not are told between two steps."""
        if sharing == self.sharing:
            return []
        self.sharing = sharing
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
            _busy=set(self._busy),
        )

    def is_news(self, done: StepDone) -> bool:
        """Whether a step changes anything: steps come often and seldom do."""
        task = self._tasks.get(done.task)
        return task is not None and (
            task.holds != done.holds or (done.samples > 0 and not task.stepped)
        )

    def is_forgiven(self, name: str) -> bool:
        """Whether a task failed as a newcomer, and the others train on."""
        return name in self._tasks and bool(self._tasks[name].error)

    def can_spare(self, name: str, how: str) -> bool:
        """Note that a task's process failed without a word; whether it is a newcomer, and the others
        train on."""
        task = self._tasks.get(name)
        if task is None or task.stepped or not self._trains_without(name):
            return False
        self._forgive(name, task.error or how)
        return True

    def stop(self, reason: str, *, leave: bool = False) -> list[Act]:
        """End all tasks after their step; `leave`: end their processes as well."""
        self._stopping, self._leave = reason or "stopped", leave
        acts: list[Act] = []
        for name, task in self._tasks.items():
            if task.alive and (task.joined or task.named):
                acts.append(Tell(name, Stop(self._stopping, leave)))
            elif task.alive:
                # It waits for a plan and has nothing to finish.
                task.leaving = True
                acts.append(Kill(name))
        return acts + self._conclude()

    def hello(self, hello: Hello) -> list[Act]:
        """Note that a task has connected, for the first time or again."""
        if hello.task in self.retired:
            return [Kill(hello.task)]
        task = self._know(hello.task, hello.role)
        if task.leaving and not hello.formation:
            return [Kill(hello.task)]  # dismissed before it started
        task.address, task.formation = hello.address, hello.formation
        task.device = hello.device
        task.ready = task.ready or hello.ready or hello.formation > 0
        self.expected.discard(hello.task)
        self._highest = max(self._highest, hello.formation)
        again: list[Act] = []
        if self._stopping:
            again.append(Tell(hello.task, Stop(self._stopping, self._leave)))
        elif self._plan and hello.task in self._concerned(self._plan):
            again.append(Tell(hello.task, self._plan))
        if self._batch is not None:
            again.append(Tell(hello.task, self._batch))
        if self.ending is not None:
            again.append(Tell(hello.task, self.ending))
        if missed := tuple(name for name in self.members or self.lost if name in self.lost):
            again.append(Tell(hello.task, MembersLost(missed)))
        return again + self._steer()

    def heard(self, message: Message) -> list[Act]:
        """Handle a task's message."""
        if isinstance(message, Failed):
            return self._note_failure(message)
        if isinstance(message, StepDone):
            return self._note_holder(message)
        if isinstance(message, TaskBusy):
            self._busy = self._busy - {message.task} | ({message.task} if message.busy else set())
            return []
        if not isinstance(message, Ready | Changed | TrainingEnded) or message.task not in self._tasks:
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
        """Note that a task's process has ended: "exit code 1", "signal 9"."""
        was_expected = name in self.expected
        self.expected.discard(name)
        if name in self.lost and not self.is_forgiven(name):
            self.lost[name] = how
        if name not in self.retired:
            task = self._know(name)
            task.gone = how
            if how == CLEAN_EXIT and name not in self.members:
                # No coordinator may have been there to hear its goodbye; or its script never trains,
                # and would not when restarted.
                known = task.leaving or task.unwanted or task.joined or was_expected
                self._missed[task.role] += not known
                task.leaving = True
            if not task.leaving:
                known = task.lost
                self._lose(name)
                return [*([] if known else self._tell_lost(name)), *self._steer()]
        return self._steer()

    def woken(self, formation: int) -> list[Act]:
        """Handle a `Wake`."""
        self._waited_out = formation
        return self._steer()

    def check_plan(self, formation: int) -> list[Act]:
        """Handle a `Check`: retry a plan that did not take effect once, then give up its joiners, since
        the members alone have agreed before."""
        if self.over or self._plan is None or self._plan.formation != formation:
            return []
        if any(self._tasks[name].alive for name in self._busy & set(self.members)):
            return [Check(DEADLINES * self.terms.deadline, formation)]
        joiners = [one.task for one in self._plan.members if one.task not in self.members]
        if self._refused and {one.task for one in self._plan.members} == set(self.members):
            self._obeyed = self.sharing  # they train on as they are
        self._plan, self._refused = None, self._refused + 1
        if self._refused < 2 or not self.members:
            return self._steer()
        for name in joiners:
            self._lose(name)
        return [*(Kill(name) for name in joiners), *self._steer()]

    # consequences

    def _adopt(self, change: Changed) -> list[Act]:
        """Adopt the members that the tasks report."""
        if change.formation <= self._adopted:
            return []
        staying = {one.task for one in self._plan.members} if self._plan else set()
        missing = set(self.members) - set(change.members)
        # An earlier coordinator knows of earlier losses. Those that should have stayed were lost now.
        known = {name for name in change.lost if name in self._tasks or name in self.expected}
        lost = sorted(known | (missing & staying))
        self.expected.difference_update(lost)
        leavers = missing - set(lost)
        self.formation, self.members = change.formation, change.members
        self._obey(change)
        self._adopted, self._plan, self._refused = change.formation, None, 0
        self._highest = max(self._highest, change.formation)
        for name in change.members:
            task = self._know(name)
            task.ready = task.joined = True
        for name in leavers:
            self._tasks[name].leaving = True
        # A hanging peer is out as well; if it resumed, it would only occupy its device.
        kills: list[Act] = [Kill(name) for name in lost if not self._know(name).gone]
        for name in lost:
            self._lose(name)
        return kills + self._steer()

    def _obey(self, change: Changed) -> None:
        """Note which sharing the members need not be told: what was planned, or what they do."""
        sharing = self.sharing
        if sharing is None or sharing.tasks != set(change.members):
            return
        planned = self._plan is not None and self._plan.formation == change.formation
        way = "ring" if change.way == "nccl" else change.way
        wanted = sharing.shares(change.members)
        near = len(wanted) == len(change.shares) and all(
            abs(one - other) < CLOSE for one, other in zip(wanted, change.shares, strict=True)
        )
        if planned or (way == sharing.sync and near and not sharing.batch):
            self._obeyed = sharing

    def _note_failure(self, failed: Failed) -> list[Act]:
        """Fail the job, unless a newcomer failed that the others can do without."""
        known = failed.task in self._tasks
        if not (failed.joining and known and self._trains_without(failed.task)):
            return self._finish(f"{failed.task}: {failed.error}")
        self._forgive(failed.task, failed.error)
        return []  # its process ends by itself

    def _trains_without(self, name: str) -> bool:
        """Whether others have done steps and are there."""
        others = [task for other, task in self._tasks.items() if other != name]
        return any(task.alive and task.joined and task.stepped for task in others)

    def _forgive(self, name: str, error: str) -> None:
        """Count the failure of a newcomer once; after several in a row no more are started."""
        task = self._tasks[name]
        self._join_failures += not task.error
        task.error = error
        if self._join_failures >= JOIN_FAILURES:
            self.refusal = (
                f"{self._join_failures} workers in a row failed before their first step: "
                f"{name}: {error}"
            )

    def _note_holder(self, done: StepDone) -> list[Act]:
        """Continue a resize in which leavers wait for another holder of the state."""
        if not self.is_news(done):
            return []
        task = self._tasks[done.task]
        task.holds = done.holds
        if done.samples and not task.stepped:
            task.stepped, self._join_failures, self.refusal = True, 0, ""
        return self._steer() if any(self._tasks[name].unwanted for name in self.members) else []

    def _lose(self, name: str) -> None:
        task = self._tasks[name]
        if task.lost:
            return
        task.lost = True
        self.lost[name] = task.error or task.gone or NO_ANSWER
        if task.unwanted:
            return  # not needed
        if task.error:
            self._missed[task.role] += bool(self.refusal)
            return
        # Do not retry a task that never was a member: it may be its start that fails.
        if not (self.terms.replace and task.joined):
            self._missed[task.role] += 1

    def _tell_lost(self, name: str) -> list[Act]:
        """Tell the others of one that they may be waiting for."""
        if self.over or not (self._tasks[name].joined or self._tasks[name].named):
            return []
        others = [each for each, task in self._tasks.items() if task.alive and task.address]
        return [Tell(each, MembersLost((name,))) for each in others]

    def _steer(self) -> list[Act]:
        """Return the next commands towards the wanted members."""
        ending = self._conclude()
        settled = self.over or self._stopping or self._asked is None or self._any_finished()
        if ending or settled or self._waits_for_members():
            return ending
        wanted = self._wanted()
        acts = self._dismiss(wanted) + self._begin_missing(wanted)
        if self._plan or not wanted or len(wanted) < sum(self.target.values()):
            return acts
        named = self._with_donors(wanted)
        can_join = all(self._tasks[name].ready and self._tasks[name].address for name in named)
        if can_join and (set(named) != set(self.members) or self._shares_otherwise(named)):
            acts += self._make_plan(named)
        return acts

    def _shares_otherwise(self, named: Collection[str]) -> bool:
        """Whether the members are to share the work in another way than they do."""
        wanted = self.sharing
        return wanted is not None and wanted != self._obeyed and wanted.tasks == set(named)

    def _waits_for_members(self) -> bool:
        """Whether a member is lost or not connected: the others will notice and report."""
        joiners = {one.task for one in self._plan.members} - set(self.members) if self._plan else set()
        if any(not self._tasks[name].alive for name in joiners):
            self._plan = None
        ahead = any(task.alive and task.formation > self._adopted for task in self._tasks.values())
        unseen = any(
            not self._tasks[name].alive or not self._tasks[name].address for name in self.members
        )
        return bool(self.expected) or ahead or unseen

    def _wanted(self) -> list[str]:
        """Members before joiners, the older first."""
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
        """Keep leavers for one more formation if no one else is known to have the state: a plan without
        holders would restart the training."""
        workers = [name for name in wanted if self._tasks[name].role == "worker"]
        if any(self._tasks[name].holds for name in workers):
            return wanted
        leavers = [name for name in self.members if self._tasks[name].unwanted]
        donors = [name for name in leavers if self._tasks[name].role == "worker"]
        return [*workers, *donors, *(name for name in wanted if name not in workers)]

    @property
    def target(self) -> dict[str, int]:
        """Wanted tasks by role, without those lost for good."""
        asked = self._asked or dict.fromkeys(ROLES, 0)
        return {role: max(0, asked[role] - self._missed[role]) for role in ROLES}

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
        """End surplus joiners that no plan has named."""
        named = {one.task for one in self._plan.members} if self._plan else set()
        spare = [
            name
            for name, task in self._tasks.items()
            if task.alive and name not in self.members and name not in wanted and name not in named
        ]
        for name in spare:
            self._tasks[name].leaving = True
        return [Kill(name) for name in spare]

    def _make_plan(self, wanted: list[str]) -> list[Act]:
        self._highest += 1
        members = tuple(
            Member(name, task.role, task.address, device=task.device)
            for name, task in ((name, self._tasks[name]) for name in wanted)
        )
        terms = self.terms
        how: dict[str, Any] = {"sync": terms.sync}
        sharing = self.sharing
        if sharing is not None and sharing.tasks == set(wanted):
            how = {
                "sync": sharing.sync,
                "batch": sharing.parts(wanted),
                "shares": sharing.shares(wanted),
            }
        self._plan = MemberPlan(
            self._highest,
            self.formation,
            members,
            terms.deadline,
            owners=terms.owners,
            balance=terms.balance,
            **how,
        )
        for name in wanted:
            self._tasks[name].named = True
        told: list[Act] = [Tell(name, self._plan) for name in self._concerned(self._plan)]
        return [*told, Check(DEADLINES * terms.deadline, self._highest)]

    def _concerned(self, plan: MemberPlan) -> list[str]:
        """Those that stay, join or leave."""
        return list(dict.fromkeys((*(one.task for one in plan.members), *self.members)))

    # the end

    def _conclude(self) -> list[Act]:
        """Finish or restart the job if its workers have ended."""
        if self.over or self.expected:
            return []
        workers = self._of(self._tasks, "worker")
        if any(task.alive for task in self._of(self.members or self._tasks, "worker")):
            return []
        if self._stopping or self._any_finished():
            return self._finish("" if self._any_finished() else self._stopping)
        lost = [task for task in workers if task.lost]
        if workers and all(task.gone == CLEAN_EXIT for task in lost or workers):
            return self._finish("")  # a script that does not report, or does not train
        if self._waited_out != self.formation and any(task.alive and task.named for task in workers):
            return self._wait_once()
        return self._restart() if lost else []

    def _wait_once(self) -> list[Act]:
        """Give a joiner named by a plan time to report that it is a member."""
        if self._patience == self.formation:
            return []
        self._patience = self.formation
        # Whoever does not answer within the deadline counts as lost; so does the joiner.
        return [Wake(self.terms.deadline, self.formation)]

    def _restart(self) -> list[Act]:
        """Start new tasks from the last checkpoint after all workers were lost."""
        ends = [f"{name} ({task.gone or NO_ANSWER})" for name, task in self._tasks.items() if task.lost]
        if self._restarts >= self.terms.restarts:
            return self._finish(f"all workers are gone: {', '.join(ends[-8:])}")
        self._restarts += 1
        past = [name for name, task in self._tasks.items() if not task.alive or name in self.members]
        left = [name for name in past if not self._tasks[name].gone]
        for name in past:
            del self._tasks[name]
        self.retired.update(past)
        self.formation, self.members, self._plan = 0, (), None
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
