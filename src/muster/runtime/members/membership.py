"""A task's membership of a job: joining, switching, losing others, leaving.

join      wait for a plan that names this task, meet the others, enter
switch    enter a newer plan between two steps, once every member has built it; or leave
enter     call the roll: who holds the state, at which step; then donors and shares
recover   drop the group, agree on a plan with the survivors, build and enter it
"""

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from muster.runtime.comm.store import Stores
from muster.runtime.comm.stream import send_json
from muster.runtime.data.feed import Feed
from muster.runtime.data.limits import BatchLimits
from muster.runtime.data.samples import Position
from muster.runtime.errors import BadTrainingError, BrokenGroupError, ExcludedError, LeftError
from muster.runtime.members.agreed import Agreed
from muster.runtime.members.ballot import LEAVE, SAVE, STOP, MemberStatus, Vote, roll_call
from muster.runtime.members.crew import Builder, Crew, Pending
from muster.runtime.members.entering import ask_feed, ask_layout, check_data, check_layout
from muster.runtime.members.exchange import exchange
from muster.runtime.members.link import CoordinatorLink
from muster.runtime.members.peers import PeerServer
from muster.runtime.members.regroup import CurrentPlans, Meeting
from muster.runtime.members.results import ResultLog
from muster.runtime.members.shares import Gauge
from muster.runtime.settings import TaskSettings
from muster.runtime.shards.owned_state import OwnedState
from muster.runtime.shards.ownership import LostShardError
from muster.runtime.state.batching import Batching, BatchWish
from muster.runtime.state.given_ending import GivenEnding
from muster.runtime.state.state import TrainingState
from muster.runtime.state.transfer import Donor, Joiner
from muster.runtime.step.buckets import Buckets, ready_order
from muster.wire.tasks.messages import (
    CheckpointNow,
    Member,
    MemberPlan,
    MembersLost,
    MembersSilent,
    Message,
    Ready,
    Stop,
    TaskBusy,
    TrainingEnded,
    UseBatch,
    UseEnding,
)

LEAST_PATIENCE = 2.0
"""Least seconds of silence before survivors continue without a member."""
LAST = 19
"""Niceness of a task that has left: what it still does must not hold up the others."""
STEPS_OF_PATIENCE = 5
"""A survivor notices a failure no later than the end of its own step."""


class Membership:
    """The formation of a task, and the way to the next."""

    def __init__(
        self,
        settings: TaskSettings,
        state: TrainingState,
        buckets: Buckets,
        feed: Feed,
        deadline: float,
    ) -> None:
        self.settings, self.state, self.buckets, self.feed = settings, state, buckets, feed
        self._deadline = deadline
        self.peers = PeerServer(settings.host, settings.token)
        self.me = Member(settings.task, settings.role, self.peers.address, device=settings.device)
        self._stores = Stores(self.peers)
        self._meeting = Meeting(self.peers, self.me, settings.token, self._tell_silent)
        self.donor = Donor(state)
        self.donor.listen(self.peers)
        self.peers.on("feed", lambda sock, _: send_json(sock, {"feed": feed.value()}))
        self.peers.on("layout", lambda sock, _: send_json(sock, {"layout": state.layout()}))
        self.owned = OwnedState(state, buckets, self.peers, settings)
        self._builder = Builder(settings, buckets, self.owned.after_sum)
        self._pending = Pending(self._builder)
        self.link = CoordinatorLink(settings, self.peers.address, self._hear)
        self.crew: Crew | None = None
        self._before: Crew | None = None
        self._orders = threading.Lock()
        self._next: tuple[MemberPlan, Crew | None] | None = None
        """The plan that all have agreed to switch to before the next step."""
        self._early: MemberPlan | None = None
        """A plan that follows a formation this task has not entered yet."""
        self.holds = False
        """Whether this task holds the whole state."""
        self.is_new = True
        """It came to a training that others do, and has not done a step of its own yet."""
        self._joiner: Joiner | None = None
        self._gauge, self._agreed = Gauge(), Agreed(feed.batch)
        self.batching = state.batching or Batching(BatchLimits(feed.batch, feed.batch))
        self.log = ResultLog()
        self._void_step = self._dry_step = 0
        """The void step that user code is in, here and on another worker; 0: none."""
        self._step_seconds = 0.0
        """Compute time of this task's last step."""
        self.cap = 0
        """Samples that fit into this task's memory; 0: no known limit."""
        self._request = 0
        """SAVE and STOP, as the coordinator asked."""
        self.requested = 0
        """SAVE and STOP, as agreed at the last commit."""
        self.restore: Callable[[], bool] = lambda: False
        """Loads the latest checkpoint; False if there is none."""
        self.before_leaving: Callable[[], None] = lambda: None
        """Called before this task says goodbye."""
        self.ready: Sequence[str] = ()
        """Names of parameters in the order in which their gradients are expected."""
        self.clips = False
        """Whether the user changes gradients between sum and update."""
        self.ended = False
        """The last step is done."""

    # joining and leaving

    def join(self) -> None:
        """Become a member: of a plan that names this task, or alone."""
        began = time.monotonic()
        if self.settings.coordinator is not None:
            self.peers.start()  # alone, there is nobody to answer
        self.link.start()
        if self.settings.coordinator is None:
            self._enter(self._builder.build(MemberPlan(1, 0, (self.me,), self._deadline)))
        else:
            self.link.send(Ready(self.settings.task))
            while not self._come_in():
                pass
        self._tell_change("start", began)

    def _come_in(self) -> bool:
        """Enter the next plan; False if it failed: another will come."""
        _, crew = self._pending.wait()
        assert crew is not None, (
            "a plan that does not name this task is not built before it is a member"
        )
        try:
            self._meeting.await_turn(crew.plan)
            if self._pending.built() > crew.formation:
                crew.close()  # replaced meanwhile
                return False
            self._enter(crew)
            return True
        except BrokenGroupError:
            self._drop()
        try:
            plan = self._meeting.follow()
            if plan is not None:
                self._meeting.stand(CurrentPlans(plan))
                self._enter(self._builder.build(plan))
                return True
        except (BrokenGroupError, ExcludedError):
            self._drop()
        # The holders of the state continue and tell the coordinator, which makes a new plan. Continuing
        # by ourselves would start the training over.
        with self._orders:
            self.crew = None
        self._meeting.stand(None)
        self.link.formation = 0
        return False

    def leave(self, how: str = "finished") -> None:
        """Say goodbye and close everything."""
        self.say_goodbye(how)
        self.close()

    def say_goodbye(self, how: str = "finished") -> None:
        """End the training for the coordinator; the workers can still reach each other."""
        crew = self.crew
        step = self.state.position.step
        self.buckets.watching = False
        self.before_leaving()
        self.donor.close()
        if self._joiner is not None:
            self._joiner.close()
        self._meeting.end()
        self._tell_now()
        self.link.send(TrainingEnded(self.settings.task, crew.formation if crew else 0, step, how))
        self.link.flush(5.0)
        self.link.close()

    def close(self) -> None:
        """Close what others reach this task by."""
        self.buckets.watching = False
        self._meeting.close()
        self.peers.close()
        self._forget_next()
        for held in (self._before, self.crew):
            if held is not None:
                held.close()
        self._pending.discard(1 << 62)

    def set_busy(self, busy: bool) -> None:
        """Ask the others to wait for this task, whatever the deadline; or no longer."""
        self._meeting.busy += 1 if busy else -1
        if self._meeting.busy == busy:
            self.link.send(TaskBusy(self.settings.task, busy))

    @property
    def shares(self) -> tuple[int, ...]:
        """Samples of each worker in a full batch; 0: it lacks the state."""
        return self._agreed.shares

    # changing members

    def _crew(self) -> Crew:
        assert self.crew is not None, "no formation has been entered"
        return self.crew

    def _take_plan(self, votes: Sequence[Vote]) -> None:
        """Take a plan that every member has built, to switch to before the next step."""
        built = {int(vote.built) for vote in votes}
        formation = built.pop()
        if not built and formation:
            self._next = self._pending.take(formation)

    def _switch(self, crew: Crew) -> None:
        """Switch to the plan that was taken, if any."""
        if self._next is None:
            return
        began = time.monotonic()
        (plan, following), self._next = self._next, None
        if following is None:
            self._part(plan)
        else:
            self._before = crew
            if not self.state.in_parts and self._agreed.knows(crew, following):
                self._go_on(crew, following)
                self._tell_change("plan", began, wait=True)
                return
            try:
                self._enter(following)
            except BrokenGroupError:
                self._recover()
                gone = {member.task for member in plan.members} - set(self._crew().tasks)
                self._tell_change("failure", began, tuple(sorted(gone)))
                return
        self._tell_change("plan", began)

    def _part(self, plan: MemberPlan) -> None:
        """Leave once the others have done the last common step."""
        self._meeting.part()
        if self.updates:
            self.owned.part(plan)
        self._meeting.await_all(plan, LEAST_PATIENCE)
        os.nice(LAST)  # the others may need this core
        self.leave("left")
        raise LeftError(0)

    # entering a formation

    def _go_on(self, before: Crew, crew: Crew) -> None:
        """Enter a formation without meeting: the first sum shows whether all have come."""
        self._stand_in(crew)
        self._renew_buckets(crew)
        self._agreed.batch = self.batching.wanted
        self._agreed.stay([before.tasks.index(task) for task in crew.tasks], crew.plan)
        self._begin_work(crew)

    def _stand_in(self, crew: Crew) -> None:
        with self._orders:
            self.crew = crew
        if self._meeting.has_lost(crew.tasks):
            crew.close()
        self.link.formation = crew.formation
        self._meeting.stand(CurrentPlans(crew.plan, self._before.plan if self._before else None))

    def _begin_work(self, crew: Crew) -> None:
        able = zip(crew.tasks, self._agreed.able, strict=False)
        self.feed.use(self._agreed.batch)
        self.feed.staff([task for task, can in able if can])
        self._pending.discard(crew.formation)
        with self._orders:
            early, self._early = self._early, None
        if early is not None:
            self._hear(early)

    def _enter(self, crew: Crew) -> None:
        """Call the roll; find holders of the state and the step; set donors and shares."""
        self._stand_in(crew)
        rows = self._call(crew)
        check_layout(crew, rows)
        check_data(crew, rows)
        sharded = self._are_sharded(crew, rows)
        if sharded:
            joined = self.owned.resolve(crew, rows)
            self.holds = self.holds or (joined and self.works)
            rows = self._call(crew)
        fresh = not any(row.holds for row in rows)
        if fresh:
            self.is_new = False
            self.owned.forget()
            if crew.rank == 0:
                self._start_over()
                self.feed.staff([])  # leases of an earlier run are void
            rows = self._call(crew)
        rows = self._follow_layout(crew, rows)
        holders = self._follow(crew, rows)
        if sharded:
            try:
                self._enter_shards(crew, rows, holders)
            except LostShardError as problem:
                self._go_back(crew, rows, problem)
                return
            fresh = True
        else:
            self._take_sides(crew, holders)
            if fresh and crew.workers > 1:
                self._hand_round(crew)
        self._share_results(crew, rows)
        able = [rank in holders or fresh for rank in range(crew.workers)]
        self._agreed.batch, self._agreed.least = self.batching.wanted, self.batching.limits.own
        self._agreed.enter(rows[: crew.workers], able, crew.plan)
        self._begin_work(crew)

    def _share_results(self, crew: Crew, rows: tuple[MemberStatus, ...]) -> None:
        """Give each other the results of collectives that some have missed.

        If user code is in a void step somewhere, it gets there everywhere, without a sum: whoever is
        in it calls the collectives of its rest.
        """
        if not self.works:
            return
        known = self.exchange(self.log.value()) if any(row.results for row in rows) else []
        step = self.state.position.step
        self.log.adopt(known, step)
        void = int(max(row.void for row in rows))
        self._dry_step = void if void > step and void != rows[crew.rank].void else 0

    def exchange(self, mine: Any) -> list[Any]:
        """Return what every worker says (for JSON), by rank; a collective of the workers."""
        crew = self._crew()
        said = exchange(crew.group, crew.workers, json.dumps(mine).encode())
        return [json.loads(each) for each in said]

    def _start_over(self) -> None:
        """Load the latest checkpoint or start from scratch: nobody holds the state."""
        if not self.restore() and self.state.position.step:
            raise ExcludedError(
                f"the last task that held the whole state of step {self.state.position.step} is lost"
            )
        self.holds = True
        self.state.run = self.state.run or secrets.randbits(48)  # exact in a roll call

    def _are_sharded(self, crew: Crew, rows: tuple[MemberStatus, ...]) -> bool:
        """Whether the optimiser's state is, or just was, spread over the members."""
        if crew.plan.owners == "update":
            self.batching.check_whole("owners that update")
            self.owned.check(self.feed.value() is not None, self.clips)
        elif crew.size > 1 and any(row.kept for row in rows):
            raise BadTrainingError('owners="update" cannot become owners="reduce" while tasks train')
        return bool(crew.holdings) or (crew.size == 1 and self.owned.active)

    def _enter_shards(self, crew: Crew, rows: tuple[MemberStatus, ...], holders: list[int]) -> None:
        """Wait until each updating owner has its part."""
        if self._joiner is not None:
            self._joiner.close()
            self._joiner = None
        names = set(crew.tasks)
        before = self._before.plan.members if self._before else ()
        leavers = [member for member in before if member.task not in names]
        self.owned.enter(crew, rows, holders, leavers)
        self.holds = self.works
        if any(row.ended for row in rows):
            self.requested |= STOP

    def _go_back(self, crew: Crew, rows: tuple[MemberStatus, ...], problem: LostShardError) -> None:
        """Restore the latest checkpoint: a part of the optimiser's state is lost."""
        if any(row.ended for row in rows):
            raise problem  # nothing to continue with
        self.owned.forget()
        self.log.forget()
        self.holds = False
        if crew.rank == 0:
            if not self.restore():
                raise BadTrainingError(
                    f"{problem}; there is none: give the training a checkpoint folder"
                ) from problem
            self.holds = True
        self._enter(crew)

    def _call(self, crew: Crew) -> tuple[MemberStatus, ...]:
        return roll_call(crew.group, self._status(), crew.rank, crew.size)

    def _status(self) -> MemberStatus:
        line = self._gauge.line() or (0.0, 0.0)
        data = self.feed.fingerprint()
        return MemberStatus(
            worker=float(self.works),
            holds=float(self.holds),
            cap=self.cap,
            fixed=line[0],
            per_sample=line[1],
            noise=self._gauge.noise(),
            layout=self.buckets.checksum,
            kept=self.owned.kept,
            prepared=self.owned.prepared,
            ended=float(self.ended),
            results=self.log.count,
            void=self._void_step,
            samples=data.samples,
            contents=data.exact,
            sketch=data.sketch,
            **self.state.row(),
            **self.batching.row(),
        )

    def _follow_layout(self, crew: Crew, rows: tuple[MemberStatus, ...]) -> tuple[MemberStatus, ...]:
        """Train what the holders of the state train, if that has changed since the beginning."""
        if type(self.buckets) is not Buckets:
            return rows
        first = max((row.changes, row.holds, -rank) for rank, row in enumerate(rows))
        if self.state.changes < first[0]:
            layout = ask_layout(crew, -int(first[2]), self.settings.token)
            self.state.set_layout(layout)
        self._renew_buckets(crew)
        if any(row.changes != first[0] for row in rows):
            rows = self._call(crew)
            check_layout(crew, rows)
        return rows

    def _renew_buckets(self, crew: Crew) -> None:
        """Lay the buckets out for what is trained now, if they are not."""
        state, buckets = self.state, self.buckets
        if [id(p) for p in state.parameters] != [id(p) for p in buckets.parameters]:
            order = ready_order(state.names, self.ready)
            buckets.lay_out_again(state.parameters, order, state.names)
            buckets.sparse = state.sparse()
        crew.fit(buckets)

    def _follow(self, crew: Crew, rows: tuple[MemberStatus, ...]) -> list[int]:
        """Adopt the position of the foremost holders; return their ranks."""
        foremost = max((row.step, row.phase) for row in rows if row.holds)
        holders = [r for r, row in enumerate(rows) if row.holds and (row.step, row.phase) == foremost]
        first = rows[holders[0]]
        if crew.rank not in holders:
            self.holds = False
            self.state.losses = first.losses
            self.state.loss, self.state.epoch_loss = first.loss, first.epoch_loss
            self.state.partial = first.partial
            self.state.trend = first.trend
            if self.feed.value() is not None:
                self.feed.restore(ask_feed(crew, holders[0], self.settings.token), alive=True)
        done = (first.epoch, first.cursor, first.step, first.seen)
        self.state.position = Position(*map(int, done))
        self.batching.enter(first)
        self.state.given = GivenEnding.told(first)
        self.state.run = int(first.run)
        self.state.phase, self.state.updates = int(first.phase), int(first.updates)
        return holders

    def _take_sides(self, crew: Crew, holders: list[int]) -> None:
        """Receive the state from a holder, if this worker lacks it; donors share the load."""
        without = [rank for rank in range(crew.workers) if rank not in holders]
        if crew.rank not in without:
            return
        donor = crew.plan.members[holders[without.index(crew.rank) % len(holders)]]
        if self._joiner is not None:
            if self._joiner.donor == donor.task:
                return  # it keeps sending
            self._joiner.close()
        own = self.settings
        self._joiner = Joiner(
            self.state, own.task, donor.task, donor.address, own.token, crew.plan.deadline
        )

    def _hand_round(self, crew: Crew) -> None:
        """Wait for the state at the very start: nobody could train meanwhile."""
        if self._joiner is not None:
            self._joiner.wait_complete()
            self._joiner.close()
            self._joiner, self.holds = None, True
        elif self.holds:
            self.donor.await_joiners(crew.workers - 1, crew.plan.deadline)
            self.donor.open(self.state.updates, whole=True)
        self._call(crew)

    # losing members

    def _recover(self) -> None:
        """Continue with the survivors; repeat if another is lost meanwhile."""
        while True:
            self._drop()
            crew = self.crew
            assert crew is not None
            patience = max(LEAST_PATIENCE, STEPS_OF_PATIENCE * self._step_seconds)
            plan = self._meeting.agree(min(patience, crew.plan.deadline / 2))
            self._pending.discard(plan.formation)
            self._meeting.stand(CurrentPlans(plan))
            try:
                self._enter(self._builder.build(plan))
                return
            except BrokenGroupError:
                continue

    def _drop(self) -> None:
        """Close everything the lost member was in: all who wait in it get an error."""
        for crew in (self.crew, self._before):
            if crew is not None:
                crew.close()
        self._before = None
        self._forget_next()
        self.owned.abandon(self.crew.formation if self.crew else 0)
        if self._joiner is not None:
            self._joiner.close()
            self._joiner = None
        self._pending.discard(self.crew.formation if self.crew else 0)

    def _forget_next(self) -> None:
        """Drop a plan that will not take effect: its joiners wait for it."""
        if self._next is not None and self._next[1] is not None:
            self._next[1].close()
        self._next = None

    # identity and messages

    @property
    def works(self) -> bool:
        """Whether this task is a worker."""
        return self.settings.role == "worker"

    @property
    def updates(self) -> bool:
        """Whether owners update: nobody has the summed gradients."""
        return self.crew is not None and bool(self.crew.holdings)

    @property
    def is_whole(self) -> bool:
        """Whether this task has the whole state, as of the beginning of the step."""
        return self.holds or (self._joiner is not None and self._joiner.complete is not None)

    @property
    def primary(self) -> bool:
        """Whether this task speaks for all: the first member that holds the state."""
        crew = self.crew
        return crew is not None and self.holds and self._agreed.able.index(True) == crew.rank

    def _hear(self, message: Message) -> None:
        """Handle an order of the coordinator (link's thread)."""
        if isinstance(message, MemberPlan):
            self._hear_plan(message)
        elif isinstance(message, MembersLost):
            self._hear_lost(message.tasks)
        elif isinstance(message, CheckpointNow):
            self._request |= SAVE
        elif isinstance(message, Stop):
            self._request |= STOP | LEAVE if message.leave else STOP
        elif isinstance(message, UseBatch):
            self.batching.wish = BatchWish(message.order, 0, message.batch)
        elif isinstance(message, UseEnding):
            self.state.told = GivenEnding.of(message)

    def _hear_plan(self, plan: MemberPlan) -> None:
        with self._orders:
            formation = self.crew.formation if self.crew else 0
            if formation == 0 and all(m.task != self.settings.task for m in plan.members):
                return
            if plan.after > formation > 0:
                self._early = plan
                return
        if formation in (0, plan.after):
            self._pending.offer(plan)

    def _hear_lost(self, tasks: Sequence[str]) -> None:
        """Break the group that has a lost member: nothing else tells of it before the deadline."""
        self._meeting.lose(tasks)
        with self._orders:
            crew = self.crew
        if crew is not None and not set(tasks).isdisjoint(crew.tasks):
            crew.close()

    def _tell_silent(self, silent: tuple[str, ...]) -> Callable[[], bool]:
        if self._meeting.ended:
            return lambda: True  # nothing is trained any more that two halves could disagree on
        message = MembersSilent(self.settings.task, silent)
        self.link.send(message)
        return lambda: self.link.is_heard(message)

    def _tell_change(
        self, cause: str, began: float, lost: tuple[str, ...] = (), wait: bool = False
    ) -> None:
        """Report the members; `wait`: not before all have come along."""
        crew, step, pause = self._crew(), self.state.position.step, time.monotonic() - began
        crew.untold = crew.change(self.settings.task, step, pause, cause, lost)
        if not wait:
            self._tell_now()

    def _tell_now(self) -> None:
        if self.crew is not None and (change := self.crew.tell()) is not None:
            self.link.send(change)
