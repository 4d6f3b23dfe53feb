"""Requests for a job's story: what happened to it, what keeps it now, and what would help."""

import asyncio
from dataclasses import replace

from muster.core.cycle.moves.room_preview import make_room_for
from muster.core.state.startable import startable
from muster.core.why.advice import Advice, AdviceQuestion, Inquiry, inquire
from muster.core.why.words import names_for, rank_words, tell
from muster.daemon.service.governing.pool_rules import refuse_priority, refuse_stranger
from muster.daemon.service.protocol import Caller, ForbiddenError
from muster.daemon.service.reading.history_service import SPANS, HistoryService
from muster.daemon.story.condense import condensed
from muster.daemon.story.from_spans import lines_of
from muster.daemon.story.lines import StoryTeller
from muster.model.decision import Kind
from muster.model.job import Job, Role
from muster.model.pool import PoolTree
from muster.model.reason import QueueRank
from muster.model.task import Fact
from muster.model.view import JobState, Phase, View
from muster.policy.registry import POLICIES
from muster.wire.api.records import OVER, JobRecord
from muster.wire.api.story_records import AdviceRecord, JobStory

PAGE = 2_000
"""Facts read at once."""
PAGES = 10
"""Of a job with more facts than these hold, the story is told by what it held when."""
STEP = 8
"""Steps of priority above a job's own that are looked at."""


class StoryService(HistoryService):
    """Answers requests for stories as well."""

    async def story(
        self, caller: Caller, which: str, advice: bool = True, every: bool = False
    ) -> JobStory:
        record = await self._record(which, caller)
        told = await self._told(record)
        found = JobStory(
            record.number,
            record.name,
            record.user,
            record.status,
            tuple(told.lines) if every else condensed(told.lines),
            told.begun,
        )
        if record.status in OVER:
            return found
        found = replace(
            found,
            code=record.code,
            now=record.reason,
            start=record.predicted_start if record.status == "waiting" else None,
            finish=record.predicted_finish,
            finish_low=record.finish_low,
            finish_high=record.finish_high,
        )
        return await self._advised(caller, record, found) if advice else found

    async def _told(self, record: JobRecord) -> StoryTeller:
        """Return what happened, from the journal; if it no longer has the beginning, from spans."""
        told, after = StoryTeller(), 0
        for _ in range(PAGES):
            page = await self._read(self._store.changes, after, record.number, PAGE)
            facts: list[Fact] = [entry.fact for entry in page]
            told.tell(facts)
            if len(page) < PAGE:
                break
            after = page[-1].seq
        else:
            told.begun = False
        if not told.begun:
            spans = await self._read(self._store.spans, record.number, SPANS)
            told.lines = list(lines_of(record, spans))
        elif record.status == "waiting":
            told.waiting(self.now())
        return told

    async def _advised(self, caller: Caller, record: JobRecord, story: JobStory) -> JobStory:
        """Add what the job competes with, and what would give it more, unless it has it all."""
        daemon = self._daemon
        live = daemon.view.jobs.get(record.number)
        if live is None or not _may_get_more(live):
            return story
        snapshot = await daemon.cycle_snapshot()
        barred = daemon.accounts.budgets.barred(snapshot.view, snapshot.now)
        view = startable(snapshot.view, snapshot.now, barred)
        state = view.jobs.get(record.number)
        if state is None:
            return story  # what keeps it is not decided by the cycle
        asked = AdviceQuestion(view, snapshot.now, snapshot.memory, record.number)
        with self._limiter.forecasting(caller.user):
            found = await asyncio.get_running_loop().run_in_executor(
                self._forecasters, _inquire, snapshot.policy, asked, caller
            )
            moves = await asyncio.get_running_loop().run_in_executor(
                self._forecasters, _moves, asked, caller
            )
        advice = (*(_record(record.number, each) for each in found.advice), *moves)
        return replace(self._ranked(story, view, found.rank), advice=advice, advised=True)

    def _ranked(self, story: JobStory, view: View, rank: QueueRank | None) -> JobStory:
        """Tell what the job competes with now, in place of when its reason was last told."""
        if rank is None:
            return story
        name_of, summary = names_for(view, story.number), self._daemon.summaries.get(story.number)
        words = rank_words(rank, name_of)
        if summary is None or summary.reason is None or summary.code != story.code:
            return replace(story, rank=words)
        return replace(story, rank=words, now=tell(replace(summary.reason, rank=None), name_of))


def _inquire(policy: str, asked: AdviceQuestion, caller: Caller) -> Inquiry:
    """Look for advice, beside the loop: groups of users are read here too."""
    job, pools = asked.view.jobs[asked.job].job, asked.view.pools
    others = (replace(job, pool=leaf) for leaf in pools.leaves() if leaf != job.pool)
    open_to = tuple(other.pool for other in others if _takes(caller, other, pools))
    steps = range(job.priority, job.priority + STEP + 1)
    highest = max(each for each in steps if _may(caller, job, each, pools))
    return inquire(POLICIES[policy], replace(asked, pools=open_to, highest=highest))


def _moves(asked: AdviceQuestion, caller: Caller) -> tuple[AdviceRecord, ...]:
    """Return that other jobs can be moved out of a waiting gang's way, to those who may do it."""
    state = asked.view.jobs[asked.job]
    if not caller.admin or state.phase is not Phase.WAITING:
        return ()
    decided = make_room_for(asked.view, asked.now, asked.memory, asked.job)
    if decided is None:
        return ()
    moved = sum(each.kind is not Kind.WAIT for each in decided.decisions)
    workers, devices = state.job.workers.gang, state.job.workers.gang * state.job.workers.need.devices
    command = f"muster defrag {asked.job} --apply"
    return (AdviceRecord("moved jobs", str(moved), workers, devices, at_once=False, command=command),)


def _takes(caller: Caller, job: Job, pools: PoolTree) -> bool:
    """Whether the job's pool takes it from this caller."""
    try:
        refuse_stranger(caller, job, pools)
        refuse_priority(caller, job, job.priority, pools)
    except ForbiddenError:
        return False
    return True


def _may(caller: Caller, job: Job, priority: int, pools: PoolTree) -> bool:
    """Whether this caller may give the job a priority; its own it has."""
    try:
        refuse_priority(caller, job, priority, pools)
    except ForbiddenError:
        return priority == job.priority
    return True


def _may_get_more(state: JobState) -> bool:
    """Whether it waits, or runs and could use more devices."""
    if state.phase is Phase.WAITING:
        return True
    elastic = state.job.elastic and state.placement is not None
    return elastic and state.phase is Phase.RUNNING and _workers(state) <= state.job.workers.most


def _workers(state: JobState) -> int:
    return state.placement.count(Role.WORKER) if state.placement is not None else 0


def _record(number: int, advice: Advice) -> AdviceRecord:
    change = advice.change
    verb = {"workers": "resize", "priority": "priority"}.get(change.field)
    command = f"muster {verb} {number} {change.value}" if verb and not advice.again else ""
    given = (advice.workers, advice.devices, advice.at_once, advice.again)
    return AdviceRecord(change.field, change.value, *given, command)
