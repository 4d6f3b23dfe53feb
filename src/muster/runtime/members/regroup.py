"""After a failure: finds the survivors and their next plan, without coordinator or store.

Survivors register with the most senior member that answers. It waits for all that may be alive and
answers with a plan for a new formation. A refused connection means dead. A member that answers is busy:
it is waited for until the deadline. One that is silent for the whole of our patience hangs, and is
excluded, and so is one that the coordinator says is lost. A member that finds the others in a formation
without it was excluded itself, and must not continue alone.

Silence may also be a cut network, with survivors on the other side. Nobody continues without silent
members before the coordinator has answered: it is on one side only.
"""

import contextlib
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from muster.runtime.comm.stream import receive_json, send_json
from muster.runtime.errors import ExcludedError
from muster.runtime.members.crew import seniority
from muster.runtime.members.peers import PeerServer, ask, connect
from muster.wire.tasks.messages import Member, MemberPlan

NOTED = 2.0
"""Seconds in which a live peer answers: its thread does nothing else. At most half a deadline."""
LOOK = 0.02
"""Seconds between checks of missing members."""
ASKED = NOTED / 4
"""Seconds for one such check."""


@dataclass(frozen=True, slots=True)
class CurrentPlans:
    """A task's plan, and the previous one until a step is done."""

    plan: MemberPlan
    before: MemberPlan | None = None

    @property
    def candidates(self) -> list[Member]:
        """All that may be in this formation or, one step behind, in the previous one."""
        before = self.before.members if self.before else ()
        found = {member.task: member for member in (*before, *self.plan.members)}
        return sorted(found.values(), key=lambda member: seniority(member.task))


@dataclass
class _Registered:
    """A survivor that waits for the plan."""

    task: str
    formation: int
    connection: socket.socket
    gone: threading.Event

    def lives(self) -> bool:
        """Whether it still waits: a closed connection is readable."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return not readable


class _SupersededError(Exception):
    """A more senior member leads after all: it was slow to answer."""


class Meeting:
    """The survivors' meeting; the most senior one leads."""

    def __init__(
        self,
        peers: PeerServer,
        me: Member,
        token: str,
        asked: Callable[[tuple[str, ...]], Callable[[], bool]] = lambda silent: lambda: True,
    ) -> None:
        """`asked`: tells the coordinator who is silent; its result says whether that was answered."""
        self._me, self._token, self._asked = me, token, asked
        self._change = threading.Condition()
        self._place: CurrentPlans | None = None
        self._registered: dict[str, _Registered] = {}
        self._leading = False
        self._lost: set[str] = set()
        self._led_by: tuple[str, socket.socket] | None = None
        """Whose plan this task waits for."""
        self.busy = 0
        """How many long things this task does: it is waited for, whatever the deadline."""
        self._awaits_busy = False
        self.ended = False
        """Its training is over: it does not come back to redo a step."""
        self._parts = False
        """It is leaving, and only waits until the others have what it keeps."""
        self._unanswered: dict[str, float] = {}
        """Seconds for which more senior members did not answer: that silence counts, too."""
        peers.on("regroup", self._register)
        peers.on("formation", self._tell)

    def stand(self, place: CurrentPlans | None) -> None:
        """Set what peers are told; None: this task comes to no meeting."""
        with self._change:
            self._place = place
            self._change.notify_all()

    def part(self) -> None:
        """Come to no meeting any more: this task leaves, and the others go on without it at once."""
        self._parts = True
        self.stand(None)
        self.close()

    def end(self) -> None:
        """Note that the training is over here."""
        with self._change:
            self.ended = True
            self._change.notify_all()

    def lose(self, tasks: Iterable[str]) -> None:
        """Wait no longer for tasks that the coordinator has given up; names are never used again."""
        with self._change:
            self._lost.update(tasks)
            if self._led_by is not None and self._led_by[0] in self._lost:
                _shut(self._led_by[1])
            self._change.notify_all()

    def has_lost(self, tasks: Iterable[str]) -> bool:
        """Whether the coordinator has given up any of these."""
        with self._change:
            return not self._lost.isdisjoint(tasks)

    def agree(self, patience: float) -> MemberPlan:
        """Return the plan to continue with; `ExcludedError` if the others have one without this task.

        `patience`: seconds of silence after which a member counts as hanging.
        """
        place = self._place
        assert place is not None
        while True:
            self._unanswered.clear()
            for member in place.candidates:
                plan = None
                if member.task == self._me.task and self._me.role == "worker":
                    plan = self._lead(place, patience)
                elif member.role == "worker":
                    plan = self._follow(member, place)
                if plan is not None:
                    return plan
            if self._me.role != "worker":
                raise ExcludedError(f"no worker answers {self._me.task}")

    def await_turn(self, plan: MemberPlan) -> None:
        """Wait until the members of the previous formation switch to a plan: they may be busy."""
        first = plan.members[0]
        if not plan.after or first.task == self._me.task:
            return
        request = {"kind": "formation", "reaches": plan.formation}
        with (
            contextlib.suppress(OSError, ValueError),
            connect(first.address, request, self._token, NOTED) as connection,
        ):
            connection.settimeout(None)
            receive_json(connection)

    def await_all(self, plan: MemberPlan, seconds: float) -> None:
        """Wait until each member of a plan has switched to it or is gone, this long at most."""
        until = time.monotonic() + seconds
        request = {"kind": "formation", "reaches": plan.formation}
        for member in plan.members:
            left = until - time.monotonic()
            with contextlib.suppress(OSError, ValueError):
                ask(member.address, request, self._token, max(LOOK, left))

    def follow(self) -> MemberPlan | None:
        """Return the plan of a more senior leader, None without one: for tasks without the state."""
        place = self._place
        assert place is not None
        for member in place.candidates:
            if member.task == self._me.task:
                return None
            if member.role == "worker":
                plan = self._follow(member, place)
                if plan is not None:
                    return plan
        return None

    def _follow(self, leader: Member, place: CurrentPlans) -> MemberPlan | None:
        """Register with a member; None if it is dead, lost, hangs or gives up."""
        if self.has_lost([leader.task]):
            return None
        request = {
            "kind": "regroup",
            "task": self._me.task,
            "formation": place.plan.formation,
            "ended": self.ended,
        }
        limit, began = min(NOTED, place.plan.deadline / 2), time.monotonic()
        try:
            with connect(leader.address, request, self._token, limit) as connection:
                answer = receive_json(connection)
                began = math.inf  # it lives
                connection.settimeout(place.plan.deadline + 2 * NOTED)
                while answer.get("noted"):
                    answer = self._await_answer(leader, connection)
        except ConnectionRefusedError:
            self._unanswered[leader.task] = math.inf
            return None
        except (OSError, ValueError):
            self._unanswered[leader.task] = min(limit, max(0.0, time.monotonic() - began))
            return None
        if "ended" in answer:
            return None
        if "excluded" in answer:
            raise ExcludedError(
                f"{leader.task} is in formation {answer['excluded']} without {self._me.task}"
            )
        members = tuple(Member(**member) for member in answer["members"])
        parts = {key: tuple(answer[key]) for key in ("batch", "shares")}
        return MemberPlan(**{**answer, "members": members, **parts})

    def _await_answer(self, leader: Member, connection: socket.socket) -> dict[str, Any]:
        """Return the leader's answer; `lose` ends the wait."""
        with self._change:
            if leader.task in self._lost:
                raise ConnectionError(f"{leader.task} is lost")
            self._led_by = leader.task, connection
        try:
            return receive_json(connection)
        finally:
            with self._change:
                self._led_by = None

    def _lead(self, place: CurrentPlans, patience: float) -> MemberPlan | None:
        """Wait for the others and decide; None if a more senior one leads."""
        self._leading = True
        try:
            return self._gather(place, patience)
        except _SupersededError:
            self.close()
            return None
        finally:
            self._leading = self._awaits_busy = False

    def _gather(self, place: CurrentPlans, patience: float) -> MemberPlan:
        until = time.monotonic() + place.plan.deadline
        others = [m for m in place.candidates if m.task != self._me.task]
        silence = {m.task: self._unanswered.get(m.task, 0.0) for m in others}
        answered: Callable[[], bool] | None = None
        while True:
            with self._change:
                lost = set(self._lost)
                present = {task for task, r in self._registered.items() if r.lives()} - lost
            missing = [m for m in others if m.task not in present and silence[m.task] < patience]
            for member in missing:
                silence[member.task] = self._silence(member, place, silence[member.task])
                if silence[member.task] < 0:  # busy
                    silence[member.task], until = 0.0, time.monotonic() + place.plan.deadline
                    self._awaits_busy = True
            if not any(silence[m.task] < patience for m in missing) or time.monotonic() > until:
                absent = [m.task for m in others if m.task not in present]
                silent = tuple(t for t in absent if t not in lost and silence[t] < math.inf)
                if silent and answered is None:
                    answered = self._asked(silent)
                if not silent or (answered and self._hears(answered)):
                    return self._decide(place, [m for m in others if m.task in present])
                # They may come back, or be on the side with the coordinator.
                silence |= dict.fromkeys(silent, 0.0)
                until = time.monotonic() + place.plan.deadline
            with self._change:
                self._change.wait(LOOK)

    def _hears(self, answered: Callable[[], bool]) -> bool:
        """Whether the coordinator answers, if it is there at all."""
        until = time.monotonic() + NOTED
        while not answered():
            if time.monotonic() > until:
                return False
            with self._change:
                self._change.wait(LOOK)
        return True

    def _silence(self, member: Member, place: CurrentPlans, before: float) -> float:
        """Return the seconds of its silence: 0 if it answers, infinite if it is lost, leaves, has ended
        or nobody listens, -1 if it is busy.

        Only time spent asking counts: if the whole machine stood still, nobody was silent.
        """
        if self.has_lost([member.task]):
            return math.inf
        began = time.monotonic()
        try:
            answer = ask(member.address, {"kind": "formation"}, self._token, ASKED)
        except ConnectionRefusedError:
            return math.inf
        except (OSError, ValueError):
            answer = {}
        if answer.get("parts"):
            return math.inf
        if not answer.get("members"):  # silent, or in no formation
            return before + LOOK + min(time.monotonic() - began, ASKED)
        if answer["leading"] and seniority(member.task) < seniority(self._me.task):
            raise _SupersededError
        # The survivors' plan and the coordinator's may have the same number: its members decide.
        if answer["formation"] >= place.plan.formation and self._me.task not in answer["members"]:
            raise ExcludedError(
                f"{member.task} is in formation {answer['formation']} without {self._me.task}"
            )
        if answer.get("ended") and not self.ended:
            return math.inf
        return -1.0 if answer.get("busy") else 0.0

    def _decide(self, place: CurrentPlans, others: list[Member]) -> MemberPlan:
        with self._change:
            came = [self._registered.pop(m.task) for m in others if m.task in self._registered]
            strangers = list(self._registered.values())
            self._registered.clear()
        highest = max([place.plan.formation, *(r.formation for r in came)])
        here = {r.task for r in came} | {self._me.task}
        members = tuple(m for m in place.candidates if m.task in here)
        plan = replace(
            place.plan,
            formation=highest + 1,
            after=place.plan.formation,
            members=members,
            batch=(),
            shares=(),
            leader=self._me.task,
        )
        for registered in came:
            self._answer(registered, asdict(plan))
        for registered in strangers:
            self._answer(registered, {"excluded": plan.formation})
        return plan

    def _answer(self, registered: _Registered, answer: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            send_json(registered.connection, answer)
        registered.gone.set()

    def _register(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Register a survivor; keep its connection until the plan is made (server's thread)."""
        task, formation = str(request["task"]), int(request["formation"])
        if self._parts or (self.ended and not request.get("ended")):
            send_json(connection, {"ended": True})
            return
        with self._change:
            plan = self._place.plan if self._place else None
            if plan and plan.formation >= formation and task not in [m.task for m in plan.members]:
                send_json(connection, {"excluded": plan.formation})
                return
            send_json(connection, {"noted": True})
            registered = _Registered(task, formation, connection, threading.Event())
            self._registered[task] = registered
            self._change.notify_all()
        while not registered.gone.wait(NOTED):
            with self._change:
                waits = self._registered.get(task) is registered
                if waits and (self.busy or self._awaits_busy):
                    send_json(connection, {"noted": True})  # it waits as long as we do

    def _tell(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Tell which formation we are in, and with whom (server's thread).

        `reaches`: not before we are in this one, unless we do not get there.
        """
        goal = int(request.get("reaches", 0))
        with self._change:
            self._change.wait_for(
                lambda: self._place is None or self._place.plan.formation >= goal or self.ended
            )
        place = self._place
        formation = place.plan.formation if place else 0
        members = [m.task for m in place.plan.members] if place else []
        answer = {
            "formation": formation,
            "members": members,
            "leading": self._leading,
            "busy": bool(self.busy),
            "ended": self.ended,
            "parts": self._parts,
        }
        send_json(connection, answer)

    def close(self) -> None:
        """Send those who wait here elsewhere."""
        with self._change:
            for registered in self._registered.values():
                registered.gone.set()
            self._registered.clear()


def _shut(connection: socket.socket) -> None:
    """End a connection that another thread reads from."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
