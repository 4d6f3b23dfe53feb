"""Requests about changes that are only asked about."""

import uuid
from dataclasses import replace

from muster.core.state.evolve import evolve
from muster.daemon.foresight.foresight import LiveForesight
from muster.daemon.service.governing.pool_change import PoolRules
from muster.daemon.service.job_names import refuse_numeric
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    LimitedError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from muster.daemon.service.submitting.user_limits import refuse_oversized
from muster.daemon.service.sweep_service import SweepService
from muster.daemon.whatif.asked import AskedWhatIf
from muster.daemon.whatif.open_questions import OpenQuestions
from muster.daemon.whatif.report import report_of
from muster.foresight.play import Present
from muster.foresight.whatif.ask import WhatIfQuestion
from muster.foresight.whatif.changes import (
    Alteration,
    ChangeError,
    NodesAdded,
    NodesDrained,
    PolicyChange,
    PoolChange,
    PriorityChange,
    SubmissionChange,
    altered,
)
from muster.model.event import Submitted
from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.policy.registry import POLICIES
from muster.wire.api.records import JobRecord
from muster.wire.api.whatif_records import WhatIfRecord

AGAIN = 2.0
"""s after which a caller whose last question is not answered yet may ask again."""


class WhatIfService(SweepService):
    """Answers requests about changes as well."""

    _asked: OpenQuestions | None = None

    async def ask_what_if(self, caller: Caller, asked: AskedWhatIf) -> WhatIfRecord:
        foresight, questions = self._foresight(), self._questions()
        if questions.of(caller.user) is not None:
            raise LimitedError("your last what-if is not answered yet", AGAIN)
        changes = await self._changes_of(caller, asked)
        question = WhatIfQuestion(changes, asked.worlds, asked.seed)
        key = uuid.uuid4().hex[:12]
        questions.ask(key, caller.user, question, foresight)
        return WhatIfRecord(key, 0, asked.worlds)

    async def what_if(self, caller: Caller, key: str) -> WhatIfRecord:
        found = self._questions().get(key)
        if found is None or found.user != caller.user:
            raise NotFoundError(f"no what-if {key!r} of yours; answers are kept for a while only")
        if found.failed:
            raise UnavailableError(found.problem)
        report = None
        if found.answer is not None:
            report = report_of(found.answer, lambda job: self._may(caller, _record(job)))
        return WhatIfRecord(key, found.done, found.of, report, found.problem)

    def _questions(self) -> OpenQuestions:
        if self._asked is None:
            self._asked = OpenQuestions()
        return self._asked

    def _foresight(self) -> LiveForesight:
        if self.foresight is None:
            raise UnavailableError("this daemon plays no futures")
        return self.foresight

    async def _changes_of(self, caller: Caller, asked: AskedWhatIf) -> tuple[Alteration, ...]:
        """Return the changes; refuse those that could not be made."""
        changes: list[Alteration] = []
        if asked.policy is not None:
            changes.append(PolicyChange(asked.policy))
        for name, pool in asked.pools.items():
            changed = self.changed_pool(name, pool.parent, pool.quotas, pool.rules or PoolRules())
            changes.append(PoolChange(changed))
        changes += [NodesAdded(each.names, each.like, each.at) for each in asked.add]
        changes += [NodesDrained(each.names, each.at, each.by) for each in asked.drain]
        for which, priority in asked.priorities.items():
            changes.append(await self._priority(caller, which, priority))
        for job, at in asked.submit:
            changes.append(await self._submission(caller, job, at))
        if not changes:
            raise RefusedError("what shall change? Give at least one change")
        try:
            altered(self._present(), changes)
        except ChangeError as error:
            raise RefusedError(str(error)) from None
        return tuple(changes)

    async def _priority(self, caller: Caller, which: str, priority: int) -> PriorityChange:
        try:
            state = await self._live(caller, which)
        except (NotFoundError, ConflictError) as error:  # a change that cannot be made, like any other
            raise RefusedError(str(error)) from None
        return PriorityChange(state.number, priority)

    async def _submission(self, caller: Caller, job: Job, at: float | None) -> SubmissionChange:
        refuse_numeric(job.name)
        refuse_oversized(job)
        await self.check_pool(caller, job)
        return SubmissionChange(job, at, self._believed(job))

    def _believed(self, job: Job) -> Outlook | None:
        """Return what would be believed of a job if it were submitted."""
        daemon, now = self._daemon, self._daemon.clock.now()
        new = replace(job, name=f"{job.name} (what if)", number=self._number + 1, after=())
        view = evolve(daemon.view, [Submitted(new, now)])
        return daemon.beliefs.outlooks(view, now).get(new.number)

    def _present(self) -> Present:
        daemon = self._daemon
        return Present(daemon.view, daemon.clock.now(), POLICIES[daemon.state.policy])


def _record(job: Job) -> JobRecord:
    return JobRecord(job.number, job.name, job.user, job.pool, "")
