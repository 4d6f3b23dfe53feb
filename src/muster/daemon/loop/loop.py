"""The driver on the real clock. One turn after another, and nothing else changes the state:

  collect    what the executor reports goes to the gangs
  fold       whatever was posted since, entry by entry; what does not fit the state is refused
  commit     facts and list entries in one transaction; then commands go out, then users are told
  decide     when something has changed, or it is time: the cycle in a thread, its decisions checked

Facts that arrive while a cycle decides wait for it, so that its decisions are never stale; jobs of new
names alone are let in meanwhile, for they change nothing that a decision rests on. Reading needs no
turn: the API answers from the last state while a turn is under way.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import structlog

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.state.begin import begun
from muster.core.state.check import BrokenInvariantError, check
from muster.core.state.evolve import EventError
from muster.core.state.lifecycle import LifecycleError
from muster.core.why.words import tell
from muster.daemon.gang.gang import Gang
from muster.daemon.gang.outbox import GangHands, Outbox
from muster.daemon.learn import Beliefs
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.follow import Follower
from muster.daemon.loop.job_summaries import Cards, record_of
from muster.daemon.loop.state import State
from muster.daemon.metrics import Metrics
from muster.files.snapshot import CycleSnapshot
from muster.model.decision import Kind
from muster.model.event import Cancelled, Ended, NodeLost, NodeReturned, Submitted
from muster.model.outlook import Outlook
from muster.model.pool import Entitlements
from muster.model.task import Decided, Fact, TaskExited, TaskFact, TaskStarted
from muster.model.view import View
from muster.policy.registry import POLICIES
from muster.ports import Clock, Executor
from muster.store.batch import Batch, Note
from muster.store.codec import encode
from muster.store.errors import StoreError, UnwritableError
from muster.store.store import Store
from muster.wire.records import JobRecord, PredictionRecord

log = structlog.get_logger()

SLICE = 200
"""List entries made without a pause: some 2 ms."""

SETTLED = 0.1
"""Seconds after a pause: at its very end it may or may not count as over."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the daemon does what; s unless told otherwise."""

    interval: float = 10.0
    """Between cycles when nothing happens."""
    gather: float = 0.02
    """From the first change to the cycle: what comes together is decided together."""
    rest: float = 1.0
    """Of the time a cycle took, before the next: at least as long is left to submissions."""
    retry: float = 1.0
    """Before a journal that could not be written is tried again."""
    refresh: float = 2.0
    """Between looks at the progress of running jobs."""
    snapshot: int = 5_000
    """Facts between two snapshots: they fold in a tenth of a second."""


class Daemon:
    """State, and the one loop that changes it."""

    def __init__(
        self,
        state: State,
        store: Store,
        executor: Executor,
        clock: Clock,
        beliefs: Beliefs,
        metrics: Metrics,
        outbox: Outbox,
        pace: Pace | None = None,
    ) -> None:
        self.state, self.store, self.executor, self.clock = state, store, executor, clock
        self.beliefs, self.metrics, self.pace = beliefs, metrics, pace or Pace()
        self.outbox = outbox
        self.cards = Cards()
        self.gangs: dict[str, Gang] = {}
        self.trouble = ""
        """Why the journal cannot be written; empty while it can."""
        self.cycles = 0
        self.last_cycle = 0.0
        self.entitlements = Entitlements({})
        self.seq = store.last_seq()
        self.news = asyncio.Condition()
        """Told whenever the journal has grown."""
        self._inbox: list[Entry] = []
        self._backlog: list[Entry] = []
        """Entries that nobody can be told of, and that could not be journalled yet."""
        self._stale: set[str] = set()
        """Jobs whose list entry has changed without a fact."""
        self._predicted: list[tuple[int, PredictionRecord]] = []
        self._unwritten: list[Note] = []
        self._wake = asyncio.Event()
        self._cycle, self._memory = Cycle(POLICIES[state.policy]), Memory()
        self._due = 0.0
        """When to decide next, by `time.monotonic`."""
        self._earliest = 0.0
        self._refreshed = 0.0
        self._unsaved = 0
        self.follower = Follower()
        self._thread = ThreadPoolExecutor(1, "muster-cycle")
        self._writer = ThreadPoolExecutor(1, "muster-journal")
        self._closing = False

    # --- the door ---

    @property
    def view(self) -> View:
        """The view that the journal folds to."""
        return self.state.view

    def post(self, entry: Entry) -> None:
        """Hand facts in; they are folded at the next turn."""
        self._inbox.append(entry)
        self._wake.set()

    async def put(self, entry: Entry) -> None:
        """Hand facts in and wait until they are safe; raises why they could not be."""
        entry.done = asyncio.get_running_loop().create_future()
        self.post(entry)
        await entry.done

    def wake(self) -> None:
        """There is something to collect."""
        self._wake.set()

    def touch(self, name: str) -> None:
        """A job's list entry is to be written anew."""
        self._stale.add(name)
        self._wake.set()

    def predict(self, number: int, prediction: PredictionRecord) -> None:
        """Store a prediction with the next entry."""
        self._predicted.append((number, prediction))

    def hands_out(self) -> None:
        """Post what the gangs have noted since the last call."""
        entry = self.outbox.take()
        if entry is not None:
            self.post(entry)

    async def grown(self, seq: int) -> None:
        """Wait until the journal is longer than that."""
        async with self.news:
            await self.news.wait_for(lambda: self.seq > seq)

    def ask_again(self) -> None:
        """Decide at the next turn, as if something had happened."""
        self._due = 0.0
        self._wake.set()

    # --- the loop ---

    async def run(self) -> None:
        """Turn after turn until `close`."""
        while not self._closing:
            await self._sleep()
            await self.turn()

    async def turn(self) -> None:
        """One pass."""
        self._wake.clear()
        self._collect()
        entries, self._inbox, self._backlog = [*self._backlog, *self._inbox], [], []
        await self._commit(entries)
        if self.trouble and not entries:
            await self._probe()
        now = time.monotonic()
        if now >= self._refreshed + self.pace.refresh:
            self._refreshed = now
            self.follower.refresh(self)
        if now >= max(self._due, self._earliest) and not self.trouble and not self._closing:
            await self._decide()
        if self._unsaved >= self.pace.snapshot:
            await self.snapshot()

    def close(self) -> None:
        """End after this turn."""
        self._closing = True
        self._wake.set()

    async def closed(self) -> None:
        """What was posted is written, then the threads end; the tasks live on."""
        if self.outbox or self._inbox or self._stale:
            self.hands_out()
            await self._commit(self._inbox)
        self._thread.shutdown(wait=True)
        self._writer.shutdown(wait=True)

    async def _sleep(self) -> None:
        now = time.monotonic()
        wait = min(self._refreshed + self.pace.refresh, max(self._due, self._earliest)) - now
        if self.trouble:
            wait = self.pace.retry
        if wait <= 0 or (self._wake.is_set() and not self.trouble):
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), wait)

    def _collect(self) -> None:
        """Hand the executor's reports to the gangs."""
        for report in self.executor.collect():
            if isinstance(report, TaskStarted | TaskExited):
                gang = self._gang_of(report.task.number)
                if gang is not None:
                    gang.started(report) if isinstance(report, TaskStarted) else gang.exited(report)
            else:
                self._node_changed(report)
            self.hands_out()

    def _gang_of(self, number: int) -> Gang | None:
        return next((gang for gang in self.gangs.values() if gang.job.number == number), None)

    def _node_changed(self, fact: NodeLost | NodeReturned) -> None:
        self.post(Entry([fact], [lambda: self.node_lost(fact)]))

    def node_lost(self, fact: NodeLost | NodeReturned) -> None:
        """The gangs that had tasks on a lost node learn of it."""
        if not isinstance(fact, NodeLost):
            return
        for name, gang in self.gangs.items():
            state = self.view.jobs.get(name)
            if state is not None and any(t.slot.node == fact.node for t in gang.tasks.values()):
                gang.lost_node(fact.node, state)
        self.hands_out()

    # --- fold and commit ---

    async def _commit(self, entries: list[Entry]) -> bool:
        """Fold, write, then do what follows; False if the journal could not be written."""
        state, fitting = self._fold(entries)
        stale, self._stale = self._stale, set()
        predicted, self._predicted = self._predicted, []
        facts = tuple(fact for entry in fitting for fact in entry.facts)
        if not (facts or stale or predicted):
            return self._follow(fitting)
        changed = self._note(fitting) | {name for name in stale if name in self.cards.of}
        records = await self._records(sorted(changed), state.view)
        keys = tuple(entry.key for entry in fitting if entry.key)
        self._unwritten += self.beliefs.observations()
        notes, self._unwritten = self._unwritten, []
        batch = Batch(facts, records, keys, tuple(predicted), tuple(notes))
        began = time.monotonic()
        try:
            loop = asyncio.get_running_loop()
            _, self.seq = await loop.run_in_executor(self._writer, self.store.write, batch)
        except UnwritableError as error:
            return await self._sort_out(error, fitting)
        except StoreError as error:
            self._unwritten = [*notes, *self._unwritten]
            self._stumble(error, fitting, stale, predicted)
            return False
        self.metrics.journalled(time.monotonic() - began, len(facts))
        self._recover_from_trouble()
        self.state = state
        self._unsaved += len(facts)
        if any(not isinstance(fact, TaskFact) for fact in facts):
            self._due = min(self._due, time.monotonic() + self.pace.gather)
        self._forget(facts)
        self._follow(fitting)
        async with self.news:
            self.news.notify_all()
        return True

    def _fold(self, entries: list[Entry]) -> tuple[State, list[Entry]]:
        """The state after all entries that fit it; whoever waits for one that does not is told."""
        with contextlib.suppress(EventError, LifecycleError):
            # Mostly all fit. One by one, each would copy the list of all jobs once more.
            return self.state.after(fact for entry in entries for fact in entry.facts), entries
        state, fitting = self.state, []
        for entry in entries:
            try:
                state = state.after(entry.facts)
            except (EventError, LifecycleError) as problem:
                if entry.done is None:
                    kinds = [type(fact).__name__ for fact in entry.facts]
                    log.warning("refused", problem=str(problem), facts=kinds)
                entry.fail(problem)
            else:
                fitting.append(entry)
        return state, fitting

    def _note(self, entries: list[Entry]) -> set[str]:
        """Bring the cards up to date; the names of those that changed."""
        names: set[str] = set()
        for entry in entries:
            for fact in entry.facts:
                name = fact.job.name if isinstance(fact, Submitted) else getattr(fact, "job", None)
                if not entry.noted:
                    self.cards.note(fact, self.gangs)
                if name in self.cards.of:
                    names.add(name)
            entry.noted = True
        return names

    async def _records(self, names: list[str], view: View) -> tuple[JobRecord, ...]:
        """List entries in a view to come; requests are answered in between, for there may be many."""
        found = []
        for first in range(0, len(names), SLICE):
            found += [self.record(name, view) for name in names[first : first + SLICE]]
            await asyncio.sleep(0)
        return tuple(found)

    def record(self, name: str, view: View | None = None) -> JobRecord:
        """A live job's list entry, as it is now or in a view to come."""
        gang, progress = self.gangs.get(name), self.beliefs.progress(name)
        return record_of(self.cards.of[name], view or self.view, gang, progress)

    async def _sort_out(self, error: UnwritableError, entries: list[Entry]) -> bool:
        """One of the entries can never be written: the others must not suffer for it."""
        if len(entries) > 1:
            return all([await self._commit([entry]) for entry in entries])
        log.error("an entry cannot be written and is dropped", problem=str(error))
        for entry in entries:
            self._take_back(entry, error)
        return False

    def _take_back(self, entry: Entry, error: StoreError) -> None:
        """It was not carried out: whoever waits is told, and a job that it brought is none."""
        for fact in entry.facts:
            if isinstance(fact, Submitted):
                self.cards.of.pop(fact.job.name, None)
        entry.fail(error)

    def _stumble(
        self,
        error: StoreError,
        entries: list[Entry],
        stale: set[str],
        predicted: list[tuple[int, PredictionRecord]],
    ) -> None:
        """The journal cannot be written: users are told, the rest is tried again."""
        if not self.trouble:
            log.error("the journal cannot be written", problem=str(error))
        self.trouble = str(error)
        self._stale |= stale
        self._predicted = [*predicted, *self._predicted]
        for entry in entries:
            if entry.done is None:
                self._backlog.append(entry)
            else:
                self._take_back(entry, error)

    async def _probe(self) -> None:
        """Try to write though there is nothing to be written: users are refused until it works."""
        try:
            loop = asyncio.get_running_loop()
            now = str(self.clock.now())
            await loop.run_in_executor(self._writer, self.store.set_setting, "written", now)
        except StoreError:
            return
        self._recover_from_trouble()

    def _recover_from_trouble(self) -> None:
        if self.trouble:
            log.info("the journal can be written again")
        self.trouble = ""

    def _forget(self, facts: Sequence[Fact]) -> None:
        """Jobs that are over leave the cards; gangs learn of changed requests."""
        for fact in facts:
            if isinstance(fact, Ended | Cancelled):
                self._bury(fact)
        for name, gang in self.gangs.items():
            state = self.view.jobs.get(name)
            if state is not None:
                gang.job = state.job
        self.follower.noted(self, facts)

    def _bury(self, fact: Ended | Cancelled) -> None:
        card = self.cards.of.pop(fact.job, None)
        self.gangs.pop(fact.job, None)
        if card is not None:
            self.follower.ended(self, card)

    def _follow(self, entries: list[Entry]) -> bool:
        """Carry out what waited for the facts, and tell who waited."""
        for entry in entries:
            for command in entry.then:
                try:
                    command()
                except Exception:
                    # One job's trouble must not end everybody's daemon.
                    log.exception("a command failed")
            entry.succeed()
        self.hands_out()
        return True

    # --- decide ---

    async def _decide(self) -> None:
        """A cycle off the event loop, and its decisions through the door."""
        now = self.clock.now()
        self._due = time.monotonic() + self.pace.interval
        if not self.view.jobs:
            return
        view = replace(self.view, outlooks=self._outlooks(now))
        began = time.monotonic()
        decided = await self._in_thread(view, now)
        self.last_cycle = time.monotonic() - began
        self._earliest = time.monotonic() + self.pace.rest * self.last_cycle
        if decided is None:
            return
        again = min(decided.again, self._settled(now))
        if again < math.inf:
            self._due = min(self._due, time.monotonic() + max(0.0, again - now))
        entry = Entry([*begun(decided, now), *self._reasons(decided, now)])
        entry.then.append(lambda: self._carry_out(decided))
        if not await self._commit([entry]):
            self._backlog.clear()  # decisions are made anew, never kept
            return
        self._memory, self.entitlements = decided.memory, decided.entitlements
        self.cycles += 1
        self.metrics.cycle(self.last_cycle, decided, self.view)

    async def _in_thread(self, view: View, now: float) -> Decisions | None:
        def decide() -> Decisions:
            decided = self._cycle.decide(view, now, self._memory)
            check(view, decided)
            return decided

        deciding = asyncio.get_running_loop().run_in_executor(self._thread, decide)
        await self._let_in(deciding)
        try:
            return await deciding
        except BrokenInvariantError as error:
            log.error("decisions broke an invariant and were dropped", invariant=str(error))
            self._cycle = Cycle(POLICIES[self.state.policy])
            return None

    async def _let_in(self, deciding: "asyncio.Future[Decisions]") -> None:
        """Take jobs in until the cycle has decided: nobody who submits waits for it."""
        deciding.add_done_callback(lambda _: self._wake.set())
        while not deciding.done():
            self._wake.clear()
            submissions = self._submissions()
            if submissions:
                await self._commit(submissions)
            elif not deciding.done():
                await self._wake.wait()
        self._wake.set()  # what else has come is for the next turn

    def _submissions(self) -> list[Entry]:
        """Take out of the inbox what only brings jobs in; the rest stays, in its order."""
        taken: list[Entry] = []
        left: list[Entry] = []
        for entry in self._inbox:
            (taken if _brings_in(entry, self.view) else left).append(entry)
        self._inbox = left
        return taken

    def _settled(self, now: float) -> float:
        """When the pause of a change is next over: until then a policy may leave the job as it is."""
        ends = (s.since + s.job.pause for s in self.view.jobs.values() if s.since is not None)
        return min((end + SETTLED for end in ends if end + SETTLED > now), default=math.inf)

    def _outlooks(self, now: float) -> Mapping[str, Outlook]:
        return self.beliefs.outlooks(self.view, now) if POLICIES[self.state.policy].informed else {}

    def _reasons(self, decided: Decisions, now: float) -> list[Fact]:
        """Decisions, and new reasons for waiting, as the journal keeps them."""
        facts: list[Fact] = []
        for decision in decided.decisions:
            card = self.cards.of[decision.job]
            known = card.code
            if card.explain(decision.reason):
                self._stale.add(decision.job)
            if decision.kind is not Kind.WAIT or known != decision.reason.code:
                words = card.text or tell(decision.reason)
                facts.append(Decided(decision.job, decision.kind, decision.reason.code, words, now))
        return facts

    def _carry_out(self, decided: Decisions) -> None:
        for decision in decided.decisions:
            if decision.kind is not Kind.WAIT:
                self.gang(decision.job).carry_out(decision)
                self.hands_out()

    def gang(self, name: str) -> Gang:
        """The gang of a live job, made if it has none yet."""
        if name not in self.gangs:
            job = self.view.jobs[name].job
            self.gangs[name] = Gang(job, GangHands(self.outbox, job.number, name))
        return self.gangs[name]

    def set_policy(self, name: str) -> None:
        """Decide by another policy from now on; what the last one remembered is of no use to it."""
        self._cycle, self._memory = Cycle(POLICIES[name]), replace(self._memory, policy=None)
        self.ask_again()

    def cycle_snapshot(self) -> CycleSnapshot:
        """What a cycle would decide on now; with outlooks even if the policy does not use them."""
        now = self.clock.now()
        view = replace(self.view, outlooks=self.beliefs.outlooks(self.view, now))
        return CycleSnapshot(now, self.state.policy, view, self._memory)

    async def snapshot(self) -> None:
        """Save the state, so that a start need not fold the whole journal."""
        body, self._unsaved = encode(self.state), 0
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._writer, self.store.snapshot, self.seq, body)
        except StoreError as error:
            log.warning("no snapshot", problem=str(error))


def _brings_in(entry: Entry, view: View) -> bool:
    """Whether it is all new jobs; one whose name is in use must not overtake the end of that job."""
    new = [isinstance(fact, Submitted) and fact.job.name not in view.jobs for fact in entry.facts]
    return bool(new) and all(new)
