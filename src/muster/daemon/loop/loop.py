"""The driver on the real clock. The state changes only in turns:

  collect    post the reports of the executor
  fold       all posted entries; those that conflict with the state are refused
  commit     facts and list entries in one transaction; then run commands, then answer callers
  decide     after a change or an interval: the cycle in a thread, its decisions checked

Facts that arrive while a cycle decides wait for it, so that its decisions are never stale. Only
submissions with new names are accepted meanwhile: no decision depends on them. Reading needs no turn:
the API answers from the last state.
"""

import asyncio
import contextlib
import math
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import structlog

from muster.core.cycle.cycle import Decisions
from muster.core.cycle.sections import is_informed
from muster.core.state.begin import begun
from muster.core.state.startable import startable
from muster.daemon.account.accounts import Accounts
from muster.daemon.gang.events import Exited
from muster.daemon.gang.exits import is_fault
from muster.daemon.gang.perform import Performer
from muster.daemon.gang.state import GangState, Sight
from muster.daemon.learn import Beliefs
from muster.daemon.loop.cycle_thread import CycleThread
from muster.daemon.loop.due import cycle_within
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.fold import Turn, fold
from muster.daemon.loop.follow import Follower
from muster.daemon.loop.foretold import Foretold
from muster.daemon.loop.job_summaries import JobSummary, explain_barred, fold_summaries
from muster.daemon.loop.live_jobs import LiveJobs, standings
from muster.daemon.loop.log_facts import log_facts
from muster.daemon.loop.node_news import NodeNews
from muster.daemon.loop.places import QueuePlaces
from muster.daemon.loop.reasons import counted, explained
from muster.daemon.loop.recent_records import RecentRecords
from muster.daemon.loop.save import encoded
from muster.daemon.loop.state import State
from muster.daemon.loop.writable import without_unwritable
from muster.daemon.metrics import Metrics
from muster.daemon.sweeps.records import changed_records
from muster.daemon.tasks.orders import log_name
from muster.daemon.timeline.curve_keeper import CurveKeeper
from muster.daemon.timeline.span_keeper import SpanKeeper
from muster.daemon.tracing import TRACING
from muster.files.snapshot import CycleSnapshot
from muster.model.decision import Kind
from muster.model.event import Submitted
from muster.model.pool import Entitlements
from muster.model.sweep import SweepSubmitted
from muster.model.task import Fact, TaskExited, TaskId, TaskStarted, job_of
from muster.model.view import JobState, View
from muster.policy.registry import POLICIES
from muster.ports import Agents, Clock, Executor
from muster.store.batch import Batch, Note
from muster.store.errors import StoreError, UnwritableError
from muster.store.store import Store
from muster.wire.api.records import JobRecord, PredictionRecord

log = structlog.get_logger()

T = TypeVar("T")

RECORDS_AT_ONCE = 100
"""List entries made without yielding to requests, and reasons told: some 2 ms."""
LOGGED_AT_ONCE = 20
"""Facts logged at once: some 2 ms. Those of a flood are logged beside the loop."""

TAIL = 4096
"""Bytes of a failed task's log that are kept with the failure: some 50 lines."""

AFTER_PAUSE = 0.1
"""s after the end of a job's pause, so that a policy counts it as over."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the daemon does what, in s unless noted."""

    interval: float = 10.0
    """Between cycles when nothing happens."""
    gather: float = 0.02
    """From the first change to the cycle, so that changes that come together are decided together."""
    calm: float = 0.25
    """From a change that calls for no decision by itself: a cycle for others may come first."""
    rest: float = 1.0
    """Between two cycles, as a multiple of the time the last one took: submissions get the rest."""
    retry: float = 1.0
    """Between attempts to write to the journal after one failed."""
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
        planners: int = 1,
    ) -> None:
        self.state, self.store, self.executor, self.clock = state, store, executor, clock
        self.beliefs, self.metrics, self.pace = beliefs, metrics, pace or Pace()
        self._performer = performer
        self.summaries: dict[int, JobSummary] = {}
        self.recent, self.live = RecentRecords(), LiveJobs()
        self.sights: dict[int, Sight] = {}
        """What this daemon has seen of each gang."""
        self.follower = Follower(self)
        self.deciding = CycleThread(state.policy, planners)
        self.entitlements = Entitlements({})
        self.places = QueuePlaces(state.view.jobs, now=clock.now())
        """Of waiting jobs, as the policy ranked them last."""
        self.cycles, self.last_cycle = 0, 0.0
        self.trouble = ""
        """Why the journal cannot be written; empty while it can."""
        self.note_exit: Callable[[TaskExited], None] = lambda report: None
        """Called with each report of an exit."""
        self.decided: list[Callable[[View], None]] = []
        """Called after each cycle."""
        self.noted: list[Callable[[Sequence[Fact]], None]] = []
        """Called with facts once they are in the journal."""
        self.saved: list[Callable[[], None]] = []
        """Called after each snapshot."""
        self.agents: Agents = dict
        """The nodes with agents; set by who has any."""
        self.blind: Callable[[], tuple[str, ...]] = tuple
        """Those of them that do not see the daemon's files."""
        self.seq = store.last_seq()
        self.news = asyncio.Condition()
        """Notified whenever the journal has grown."""
        self._inbox: list[Entry] = []
        self._node_news = NodeNews()
        self._backlog: list[Entry] = []
        """Entries without a caller that could not be journalled yet."""
        self._stale: set[int] = set()
        """Jobs whose list entry has changed without a fact."""
        self.accounts = Accounts()
        self.curves, self.spans = CurveKeeper(beliefs), SpanKeeper()
        self._predicted: list[tuple[int, PredictionRecord]] = []
        self._unwritten: list[Note] = []
        self._foretold = Foretold()
        self._unsaved = 0
        """Facts since the last snapshot."""
        self._saving: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._due, self._earliest, self._refreshed = 0.0, 0.0, 0.0
        """When to decide next, but not before, and the last refresh; by `time.monotonic`."""
        self._writer = ThreadPoolExecutor(1, "muster-journal")
        self._closing = False

    # --- what others call ---

    @property
    def view(self) -> View:
        """The view of the current state."""
        return self.state.view

    def post(self, entry: Entry) -> None:
        """Hand in an entry for the next turn."""
        self._inbox.append(entry)
        self._wake.set()

    async def put(self, entry: Entry) -> None:
        """Hand in an entry and wait until it is in the journal; raises why it is not."""
        entry.done = asyncio.get_running_loop().create_future()
        self.post(entry)
        await entry.done

    def wake(self) -> None:
        """Start a turn: the executor has reports."""
        self._wake.set()

    def touch(self, job: int) -> None:
        """Rewrite a job's list entry."""
        self._stale.add(job)
        self._wake.set()

    def predict(self, number: int, prediction: PredictionRecord) -> None:
        """Store a prediction with the next turn."""
        self._predicted.append((number, prediction))

    def foretell(self, told: Foretold) -> None:
        """Store forecasts, what came of them, and notes with the next turn."""
        self._foretold += told
        self._wake.set()

    async def grown(self, seq: int) -> None:
        """Wait until the journal has facts after this number."""
        async with self.news:
            await self.news.wait_for(lambda: self.seq > seq)

    def decide_soon(self) -> None:
        """Decide at the next turn, whatever is due."""
        self._due = 0.0
        self._wake.set()

    # --- the loop ---

    async def run(self) -> None:
        """Run turns until `close`."""
        while not self._closing:
            await self._sleep()
            await self.turn()

    async def turn(self) -> None:
        """Take in what happened and, if it is time, refresh, decide and save a snapshot."""
        await self.take_in()
        now = time.monotonic()
        if now >= self._refreshed + self.pace.refresh:
            self._refreshed = now
            self.follower.refresh()
            for entry in self._node_news.retries():
                self.post(entry)
        if now >= max(self._due, self._earliest) and not self.trouble and not self._closing:
            with TRACING.span("cycle", jobs=len(self.view.jobs)) as told:
                await self._decide()
                told |= {"seconds": self.last_cycle, "apart": self.deciding.is_apart}
        if self._unsaved >= self.pace.snapshot and (self._saving is None or self._saving.done()):
            self._saving = asyncio.create_task(self.snapshot(), name="muster-snapshot")

    async def take_in(self) -> None:
        """Collect the reports of the executor, and commit what was posted."""
        self._wake.clear()
        self._collect()
        entries, self._inbox, self._backlog = [*self._backlog, *self._inbox], [], []
        await self._commit(entries)
        if self.trouble and not entries:
            await self._probe()

    def close(self) -> None:
        """End after this turn."""
        self._closing = True
        self._wake.set()

    async def closed(self) -> None:
        """Write what was posted and end the threads; the tasks keep running."""
        if self._inbox or self._stale:
            await self._commit(self._inbox)
        if self._saving is not None:
            await self._saving
        self.deciding.close()
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
            async with asyncio.timeout(wait):
                await self._wake.wait()

    def _collect(self) -> None:
        """Post what the executor reports."""
        for report in self.executor.collect():
            if isinstance(report, TaskStarted):
                log.info("task started", task=str(report.task), pid=report.pid)
                self.post(Entry(events=[(report.task.number, report)]))
            elif isinstance(report, TaskExited):
                self.note_exit(report)
                tail = self._tail(report.task) if is_fault(report) else ""
                self.post(Entry(events=[(report.task.number, Exited(report, tail))]))
            else:
                self.post(self._node_news.entry(report))

    def _tail(self, task: TaskId) -> str:
        """Return the last lines of a task's log."""
        state = self.view.jobs.get(task.number)
        try:
            name = log_name(state.job, task) if state is not None else ""
            piece = self.executor.read_log(name, -TAIL, TAIL)
        except LookupError:
            return ""
        text = piece.data.decode(errors="replace").rstrip("\n")
        return text.partition("\n")[2] if piece.offset else text

    # --- fold and commit ---

    async def _commit(
        self, entries: list[Entry], explained: Mapping[int, JobSummary] | None = None
    ) -> bool:
        """Fold, write, then adopt, `explained` summaries too; False if it could not be written."""
        explained = explained or {}
        turn = fold(self.state, self.sights, entries, self.clock.now())
        stale, self._stale = self._stale, set()
        predicted, self._predicted = self._predicted, []
        charges = self.accounts.charges(turn, self.clock.now())
        spans = self.spans.changes(turn)
        foretold, self._foretold = self._foretold, Foretold()
        if not (turn.facts or stale or predicted or explained or charges.uses or spans or foretold):
            self._adopt(turn, {})
            return True
        known = ChainMap(dict(explained), self.summaries)
        summaries = {**explained, **fold_summaries(known, turn.facts)}
        changed = summaries.keys() | (stale & self.summaries.keys())
        records = await self._records(sorted(changed), turn, summaries)
        keys = tuple(entry.key for entry in turn.accepted if entry.key)
        self._unwritten += self.beliefs.observations()
        notes, self._unwritten = [*self._unwritten, *foretold.notes], []
        acts = tuple(entry.act for entry in turn.accepted if entry.act)
        batch = Batch(tuple(turn.facts), records, keys, tuple(predicted), tuple(notes), acts)
        sweeps = changed_records(self.state.sweeps, turn.facts)
        points = self.curves.take(turn.closed)
        batch = replace(batch, sweeps=sweeps, uses=charges.uses, points=points, spans=spans)
        batch = replace(batch, forecasts=foretold.made, outcomes=foretold.outcomes)
        began = time.monotonic()
        try:
            with TRACING.span("commit", facts=len(turn.facts), records=len(records)):
                _, self.seq = await self._store(batch)
        except UnwritableError as error:
            return await self._drop_unwritable(error, turn.accepted)
        except StoreError as error:
            self._unwritten = [*notes, *self._unwritten]
            self._foretold = replace(foretold, notes=()) + self._foretold
            self.curves.give_back(points)
            self._stale |= stale
            self._predicted = [*predicted, *self._predicted]
            self._retry_later(error, turn.accepted)
            return False
        self.metrics.journalled(time.monotonic() - began, len(turn.facts))
        self._clear_trouble()
        self._unsaved += len(turn.facts)
        within = cycle_within(turn.facts, turn.state.view, self.pace)
        self._due = min(self._due, time.monotonic() + within)
        self.accounts.adopt(charges)
        self.spans.adopt(spans)
        self._adopt(turn, summaries)
        async with self.news:
            self.news.notify_all()
        return True

    def _adopt(self, turn: Turn, summaries: Mapping[int, JobSummary]) -> None:
        """Take over the new state, whose facts are in the journal, and run what waited for it."""
        nodes, self.sights = self.view.cluster.index, turn.sights
        self.state = turn.state
        if self.view.cluster.index is not nodes:  # some have come or gone
            self.beliefs.follow(self.view.cluster.node_devices(), self.view.cluster)
        self.summaries.update(summaries)
        for number, closed in turn.closed.items():
            summary = self.summaries.pop(number, None)
            if summary is not None:
                self.follower.ended(closed.job.job, summary)
        changed = _jobs_of(turn.facts)
        self.places.take(changed, self.view.jobs, self.clock.now())
        self.live.take(standings(changed, self.state, self.summaries))
        self.follower.noted(turn.facts)
        for tell_of in self.noted:
            _attempt(partial(tell_of, turn.facts))
        ended = {number: closed.job for number, closed in turn.closed.items()}
        if len(turn.facts) < LOGGED_AT_ONCE:
            log_facts(turn.facts, self.view.jobs, ended)
        else:
            self._writer.submit(log_facts, turn.facts, self.view.jobs, ended)
        for job, command in turn.commands:
            _attempt(partial(self._performer.perform, job, command))
        for entry in turn.accepted:
            for call in entry.then:
                _attempt(call)
            entry.succeed()

    async def _records(
        self, numbers: list[int], turn: Turn, summaries: Mapping[int, JobSummary]
    ) -> tuple[JobRecord, ...]:
        """Return list entries after a turn, yielding to requests in between: there may be many."""
        found = []
        for place, number in enumerate(numbers, 1):
            summary, closed = summaries.get(number) or self.summaries[number], turn.closed.get(number)
            state = closed.job if closed else turn.state.view.jobs[number]
            gang = closed.gang if closed else turn.state.gangs.get(number)
            found.append(self._record(number, summary, state, gang))
            if place % RECORDS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return tuple(found)

    def record(self, number: int) -> JobRecord:
        """Return a live job's current list entry."""
        state, gang = self.view.jobs[number], self.state.gangs.get(number)
        return self._record(number, self.summaries[number], state, gang)

    def _record(
        self, number: int, summary: JobSummary, state: JobState, gang: GangState | None
    ) -> JobRecord:
        progress, forecast = self.beliefs.progress(number), self.follower.forecasts.get(number)
        return self.recent.record(summary, state, gang, progress, forecast)

    async def _store(self, batch: Batch) -> tuple[int, int]:
        """Write a batch; what cannot be written beside its facts is replaced or left out."""
        try:
            return await self._write(self.store.write, batch)
        except UnwritableError:
            return await self._write(self.store.write, without_unwritable(batch))

    async def _write(self, write: Callable[..., T], *arguments: object) -> T:
        """Call a method of the store in the writer's thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writer, write, *arguments)

    async def _drop_unwritable(self, error: UnwritableError, entries: list[Entry]) -> bool:
        """Drop the one entry that can never be written, and commit the others."""
        if len(entries) > 1:
            return all([await self._commit([entry]) for entry in entries])
        log.error("dropped an entry that cannot be written", problem=str(error))
        for entry in entries:
            entry.fail(error)
        return False

    def _retry_later(self, error: StoreError, entries: list[Entry]) -> None:
        """Fail entries with a caller, and keep the others for the next attempt."""
        if not self.trouble:
            log.error("the journal cannot be written", problem=str(error))
        self.trouble = str(error)
        for entry in entries:
            if entry.done is None:
                self._backlog.append(entry)
            else:
                entry.fail(error)

    async def _probe(self) -> None:
        """Try to write without facts: callers are refused until it works."""
        with contextlib.suppress(StoreError):
            await self._write(self.store.set_setting, "written", str(self.clock.now()))
            self._clear_trouble()

    def _clear_trouble(self) -> None:
        if self.trouble:
            log.info("the journal can be written again")
        self.trouble = ""

    async def snapshot(self) -> None:
        """Save the state, so that a restart need not fold the whole journal."""
        seq, self._unsaved = self.seq, 0
        try:
            body, *parts = await encoded(self.state)
            # One by one: what is to be written meanwhile goes in between.
            for number, part in enumerate(parts):
                await self._write(self.store.snapshot_part, seq, number, part)
            await self._write(self.store.snapshot, seq, body, len(parts))
        except StoreError as error:
            log.warning("snapshot failed", problem=str(error))
        except Exception:  # the journal has everything; nobody else looks at how this ended
            log.exception("snapshot failed")
        for call in self.saved:
            _attempt(call)

    # --- decide ---

    async def _decide(self) -> None:
        """Run a cycle in its thread, and commit its decisions."""
        now = self.clock.now()
        self._due = time.monotonic() + self.pace.interval
        if not self.view.jobs:
            self.entitlements = Entitlements({})
            self._tell_decided()
            return
        informed = is_informed(self.view.pools, POLICIES[self.state.policy])
        outlooks = self.beliefs.outlooks(self.view, now) if informed else {}
        began = time.monotonic()
        await asyncio.sleep(0)  # here and below: requests come in between, the state stays
        view = self.beliefs.inform(replace(self.view, outlooks=outlooks), now)
        await asyncio.sleep(0)
        barred = self.accounts.budgets.barred(self.view, now)
        view = startable(view, now, barred, self.places.delayed)
        decided = await self._meanwhile(self.deciding.decide(view, now))
        self.last_cycle = time.monotonic() - began
        self._earliest = time.monotonic() + self.pace.rest * self.last_cycle
        if decided is None:
            return
        await self._rank(decided.order)
        delay_ends = self.places.next_start(self.view.jobs, now)
        again = min(decided.again, self._next_pause_end(view, now), delay_ends)
        if again < math.inf:
            self._due = min(self._due, time.monotonic() + max(0.0, again - now))
        told = counted(decided.decisions, self.summaries)
        if not await self._take_over(decided, barred, now):
            self._backlog.clear()  # the next cycle decides afresh
            return
        self.deciding.memory, self.entitlements = decided.memory, decided.entitlements
        self.cycles += 1
        self.metrics.cycle(self.last_cycle, told)
        self._tell_decided()

    async def _take_over(self, decided: Decisions, barred: Mapping[int, str], now: float) -> bool:
        """Commit what was decided, then why jobs wait, in parts between which new jobs are committed:
        thousands may have come. False if it could not all be written: the next cycle tells it again."""
        acts = [each for each in decided.decisions if each.kind is not Kind.WAIT]
        waits = [each for each in decided.decisions if each.kind is Kind.WAIT]
        facts, changed = explain_barred(barred, self.summaries, now)
        facts = [*begun(decided, now), *facts]
        starts = range(0, max(len(waits), 1), RECORDS_AT_ONCE)
        for part in (waits[at : at + RECORDS_AT_ONCE] for at in starts):
            more, told = explained([*acts, *part], self.view, self.summaries, now)
            if not await self._commit([Entry([*facts, *more])], {**changed, **told}):
                return False
            acts, facts, changed = [], [], {}
            await self._admit()
        return True

    def _tell_decided(self) -> None:
        for call in self.decided:
            _attempt(partial(call, self.view))

    async def _rank(self, order: Sequence[int]) -> None:
        """Take over the order of a cycle."""
        now, jobs = self.clock.now(), self.view.jobs
        places = await self._meanwhile(self.deciding.ranked(order, jobs, now))
        places.take(self.view.jobs.keys() - jobs.keys(), self.view.jobs, now)
        self.places = places

    async def _meanwhile(self, working: "asyncio.Future[T]") -> T:
        """Commit new jobs until a part of the cycle is done, so that submissions need not wait for it;
        return what it comes to."""
        working.add_done_callback(lambda _: self._wake.set())
        while not working.done():
            self._wake.clear()
            if not await self._admit() and not working.done():
                await self._wake.wait()
        self._wake.set()  # the rest is for the next turn
        return working.result()

    async def _admit(self) -> bool:
        """Commit the new jobs among what was posted; whether there were any."""
        new: list[Entry] = []
        rest: list[Entry] = []
        for entry in self._inbox:
            (new if _only_submits(entry, self.view) else rest).append(entry)
        self._inbox = rest
        if new:
            await self._commit(new)
        return bool(new)

    def _next_pause_end(self, view: View, now: float) -> float:
        """Return when the next pause after a change ends: until then a policy may leave that job
        alone."""
        held = (view.jobs[number] for number in self.state.gangs if number in view.jobs)
        changed = ((state, state.since) for state in held if state.since is not None)
        ends = (since + view.last_pause(state) + AFTER_PAUSE for state, since in changed)
        return min((end for end in ends if end > now), default=math.inf)

    def set_policy(self, name: str) -> None:
        """Use another policy from the next cycle on."""
        self.deciding.set_policy(name)
        self.decide_soon()

    async def cycle_snapshot(self) -> CycleSnapshot:
        """Return what a cycle would decide on now; with outlooks even if the policy uses none."""
        memory, now = await self.deciding.remembered(), self.clock.now()
        view = replace(self.view, outlooks=self.beliefs.outlooks(self.view, now))
        view = self.beliefs.inform(view, now)
        return CycleSnapshot(now, self.state.policy, view, memory)


def _attempt(call: Callable[[], None]) -> None:
    """Call something whose failure must not stop the daemon."""
    try:
        call()
    except Exception:
        log.exception("command failed")


def _jobs_of(facts: Sequence[Fact]) -> set[int]:
    """Return the jobs that facts are about."""
    return {number for fact in facts if (number := job_of(fact)) is not None}


def _only_submits(entry: Entry, view: View) -> bool:
    """Whether it is all new jobs; one whose name is in use must not overtake the end of that job."""
    new = [
        isinstance(fact, SweepSubmitted)
        or (isinstance(fact, Submitted) and fact.job.full_name not in view.names)
        for fact in entry.facts
    ]
    return bool(new) and all(new)
