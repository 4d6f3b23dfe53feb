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
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import structlog

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.state.begin import begun
from muster.core.state.check import BrokenInvariantError, check
from muster.core.why.words import tell
from muster.daemon.gang.events import Exited
from muster.daemon.gang.exits import is_fault
from muster.daemon.gang.perform import Performer
from muster.daemon.gang.state import Sight
from muster.daemon.learn import Beliefs
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.fold import Turn, fold
from muster.daemon.loop.follow import Follower
from muster.daemon.loop.job_summaries import Card, fold_cards, record_of
from muster.daemon.loop.state import State
from muster.daemon.metrics import Metrics
from muster.daemon.tasks.orders import log_name
from muster.files.snapshot import CycleSnapshot
from muster.model.decision import Kind
from muster.model.event import Submitted
from muster.model.outlook import Outlook
from muster.model.pool import Entitlements
from muster.model.task import Decided, Fact, TaskExited, TaskFact, TaskId, TaskStarted
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

TAIL = 4096
"""Bytes of a failed task's log that are kept with the failure: some 50 lines."""

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
        performer: Performer,
        pace: Pace | None = None,
    ) -> None:
        self.state, self.store, self.executor, self.clock = state, store, executor, clock
        self.beliefs, self.metrics, self.pace = beliefs, metrics, pace or Pace()
        self._performer = performer
        self.cards: dict[int, Card] = {}
        self.sights: dict[int, Sight] = {}
        """What this daemon has seen of each gang."""
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
        self._stale: set[int] = set()
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

    def touch(self, job: int) -> None:
        """Rewrite a job's list entry."""
        self._stale.add(job)
        self._wake.set()

    def predict(self, number: int, prediction: PredictionRecord) -> None:
        """Store a prediction with the next entry."""
        self._predicted.append((number, prediction))

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
        if self._inbox or self._stale:
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
        """Post what the executor reports."""
        for report in self.executor.collect():
            if isinstance(report, TaskStarted):
                self.post(Entry(events=[(report.task.number, report)]))
            elif isinstance(report, TaskExited):
                tail = self._tail(report.task) if is_fault(report) else ""
                self.post(Entry(events=[(report.task.number, Exited(report, tail))]))
            else:
                self.post(Entry([report]))

    def _tail(self, task: TaskId) -> str:
        """Return the last lines that a task has printed."""
        state = self.view.jobs.get(task.number)
        try:
            name = log_name(state.job, task) if state is not None else ""
            piece = self.executor.read_log(name, -TAIL, TAIL)
        except LookupError:
            return ""
        text = piece.data.decode(errors="replace").rstrip("\n")
        return text.partition("\n")[2] if piece.offset else text

    # --- fold and commit ---

    async def _commit(self, entries: list[Entry]) -> bool:
        """Fold, write, then do what follows; False if the journal could not be written."""
        turn = fold(self.state, self.sights, entries, self.clock.now())
        stale, self._stale = self._stale, set()
        predicted, self._predicted = self._predicted, []
        if not (turn.facts or stale or predicted):
            return self._adopt(turn, {})
        cards = fold_cards(self.cards, turn.facts)
        changed = cards.keys() | {number for number in stale if number in self.cards}
        records = await self._records(sorted(changed), turn, cards)
        keys = tuple(entry.key for entry in turn.accepted if entry.key)
        self._unwritten += self.beliefs.observations()
        notes, self._unwritten = self._unwritten, []
        batch = Batch(tuple(turn.facts), records, keys, tuple(predicted), tuple(notes))
        began = time.monotonic()
        try:
            loop = asyncio.get_running_loop()
            _, self.seq = await loop.run_in_executor(self._writer, self.store.write, batch)
        except UnwritableError as error:
            return await self._sort_out(error, turn.accepted)
        except StoreError as error:
            self._unwritten = [*notes, *self._unwritten]
            self._stumble(error, turn.accepted, stale, predicted)
            return False
        self.metrics.journalled(time.monotonic() - began, len(turn.facts))
        self._recover_from_trouble()
        self._unsaved += len(turn.facts)
        if any(not isinstance(fact, TaskFact) for fact in turn.facts):
            self._due = min(self._due, time.monotonic() + self.pace.gather)
        self._adopt(turn, cards)
        async with self.news:
            self.news.notify_all()
        return True

    def _adopt(self, turn: Turn, cards: Mapping[int, Card]) -> bool:
        """The facts are in the journal: take the new state, and do what waited for it."""
        self.state, self.sights = turn.state, turn.sights
        self.cards.update(cards)
        for number, closed in turn.closed.items():
            card = self.cards.pop(number, None)
            if card is not None:
                self.follower.ended(self, closed.job.job, card)
        self.follower.noted(self, turn.facts)
        for job, command in turn.commands:
            self._attempt(partial(self._performer.perform, job, command))
        for entry in turn.accepted:
            for call in entry.then:
                self._attempt(call)
            entry.succeed()
        return True

    def _attempt(self, call: Callable[[], None]) -> None:
        """Call something that must not end everybody's daemon if it fails."""
        try:
            call()
        except Exception:
            log.exception("a command failed")

    async def _records(
        self, numbers: list[int], turn: Turn, cards: Mapping[int, Card]
    ) -> tuple[JobRecord, ...]:
        """Return list entries as of a turn; requests are answered in between, for there may be many."""
        found = []
        for first in range(0, len(numbers), SLICE):
            for number in numbers[first : first + SLICE]:
                card, closed = cards.get(number) or self.cards[number], turn.closed.get(number)
                state = closed.job if closed else turn.state.view.jobs[number]
                gang = closed.gang if closed else turn.state.gangs.get(number)
                found.append(record_of(card, state, gang, self.beliefs.progress(number)))
            await asyncio.sleep(0)
        return tuple(found)

    def record(self, number: int) -> JobRecord:
        """Return a live job's list entry as it is now."""
        state, gang = self.view.jobs[number], self.state.gangs.get(number)
        return record_of(self.cards[number], state, gang, self.beliefs.progress(number))

    async def _sort_out(self, error: UnwritableError, entries: list[Entry]) -> bool:
        """One of the entries can never be written: the others must not suffer for it."""
        if len(entries) > 1:
            return all([await self._commit([entry]) for entry in entries])
        log.error("an entry cannot be written and is dropped", problem=str(error))
        for entry in entries:
            entry.fail(error)
        return False

    def _stumble(
        self,
        error: StoreError,
        entries: list[Entry],
        stale: set[int],
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
                entry.fail(error)

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

    def _outlooks(self, now: float) -> Mapping[int, Outlook]:
        return self.beliefs.outlooks(self.view, now) if POLICIES[self.state.policy].informed else {}

    def _reasons(self, decided: Decisions, now: float) -> list[Fact]:
        """Decisions, and new reasons for waiting, as the journal keeps them."""
        facts: list[Fact] = []
        for decision in decided.decisions:
            before = self.cards[decision.job]
            card = self.cards[decision.job] = before.explain(decision.reason)
            if card is not before:
                self._stale.add(decision.job)
            if decision.kind is not Kind.WAIT or before.code != decision.reason.code:
                words = card.text or tell(decision.reason)
                facts.append(Decided(decision.job, decision.kind, decision.reason.code, words, now))
        return facts

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
    new = [isinstance(fact, Submitted) and fact.job.name not in view.names for fact in entry.facts]
    return bool(new) and all(new)
