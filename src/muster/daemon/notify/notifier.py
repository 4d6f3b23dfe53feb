"""Follows the journal and tells subscribers, beside the loop: whatever they do, nothing waits."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence

import structlog

from muster.daemon.loop.loop import Daemon
from muster.daemon.notify.notice import TOLD, Notice, happening_of, notice_of
from muster.daemon.notify.pending import Delivery, Notices, read_pending, stored_pending
from muster.daemon.notify.send import run_command, send_webhook
from muster.daemon.notify.subscription import PATIENCE, Subscription, read_subscriptions, written
from muster.model.event import Submitted
from muster.model.happening import Happening
from muster.model.job import Job
from muster.model.sweep import MemberSubmitted, SweepSubmitted
from muster.model.task import Fact, job_of
from muster.model.view import JobState, Phase
from muster.store.batch import Journalled
from muster.store.errors import StoreError
from muster.wire.api.records import JobRecord

log = structlog.get_logger()

SUBSCRIPTIONS, PENDING, SECRET = "subscriptions", "pending notices", "notify secret of "
"""Settings: who wants to know what, what is on its way, what each user's notices are signed with."""
LOOK = 5.0
"""s between looks for jobs that have waited too long."""
LEAST_LOOK = 1.0
"""s between them at the least: thousands may wait."""
GATHER = 0.1
"""s after a fact, so that those of a flood are read together and not one by one."""
AT_ONCE = 500
"""Facts read together."""
KEPT_EVERY = 5_000
"""Facts that mean nothing to anybody after which it is kept how far they were read."""
OF_JOB = "job "
"""Before the number of a job that has a webhook of its own, as the key of its deliveries."""


class Notifier:
    """The subscriptions of a daemon's users, and what they have yet to be told."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon, self._store = daemon, daemon.store
        self.subscriptions = read_subscriptions(self._store.setting(SUBSCRIPTIONS))
        self._pending: Notices = read_pending(self._store.setting(PENDING), daemon.seq)
        self._kept = self._pending.seq
        """Up to where the next daemon need not read the journal again."""
        self._waited: set[tuple[str, int]] = set()
        """Subscribers and jobs whose long wait was told."""
        self._asking = _asking(daemon.view.jobs.values())
        """Jobs that ask to be told of a long wait."""
        daemon.noted.append(self._noted)
        self._looked = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Follow the journal until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="muster-notifier")

    async def close(self) -> None:
        """End; what is on its way is told by the next daemon."""
        # Python 3.11 loses a cancellation that meets a notification of the journal's growth.
        while self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.1)

    async def change(self, key: str, subscription: Subscription | None) -> None:
        """Add or replace a subscription; None: remove it."""
        if subscription is None:
            self.subscriptions.pop(key, None)
            self._pending.drop(key)
        else:
            self.subscriptions[key] = subscription
        text = written(self.subscriptions.values())
        await asyncio.to_thread(self._store.set_setting, SUBSCRIPTIONS, text)

    def state_of(self, key: str) -> tuple[int, int, int, str]:
        """Return how many notices were told, are on their way and were given up, and the last error."""
        record = self._pending.records.get(key)
        pending = sum(each.to == key for each in self._pending.deliveries)
        return (record.told, pending, record.given_up, record.error) if record else (0, pending, 0, "")

    async def try_out(self, subscription: Subscription) -> str:
        """Tell a subscriber of something that did not happen; return what went wrong."""
        about = {"number": 0, "name": "example", "user": subscription.user, "status": "succeeded"}
        text = f"a test of {subscription.name}: Muster can reach you"
        return await self._tell(subscription, Notice("test", "test", time.time(), text, about))

    async def secret(self, user: str) -> str:
        """Return what a user's notices are signed with; made when it is first asked for."""
        key = SECRET + user
        found = await asyncio.to_thread(self._store.setting, key)
        if not found:
            found = secrets.token_urlsafe(32)
            await asyncio.to_thread(self._store.set_setting, key, found)
        return found

    # --- beside the loop ---

    async def _run(self) -> None:
        while True:
            try:
                await self._read_journal()
                self._look_for_waiting()
                await self._deliver()
                await self._wait()
            except StoreError as problem:
                log.warning("notices wait: the store does not answer", problem=str(problem))
                await asyncio.sleep(LOOK)
            except Exception:  # whatever a notice is about, the next one may be told
                log.exception("a notice failed")
                await asyncio.sleep(LOOK)

    async def _wait(self) -> None:
        """Wait for a fact, a delivery that is due again, or the next look at waiting jobs."""
        due = self._pending.next_due()
        seconds = LOOK if due is None else min(LOOK, max(0.0, due - self._daemon.clock.now()))
        with contextlib.suppress(TimeoutError):
            # Not `wait_for`: that of Python 3.11 may lose a cancellation, and `close` would hang.
            async with asyncio.timeout(seconds):
                await self._daemon.grown(self._pending.seq)
        await asyncio.sleep(GATHER)

    async def _read_journal(self) -> None:
        """Turn new facts into deliveries, and keep both where the next daemon finds them."""
        while self._pending.seq < self._daemon.seq:
            upto = self._daemon.seq
            after = self._pending.seq
            found = await asyncio.to_thread(self._store.facts_of, TOLD, after, upto, AT_ONCE)
            self._pending.add([each for entry in found for each in await self._deliveries(entry)])
            self._pending.seq = found[-1].seq if len(found) == AT_ONCE else upto
            if found or self._pending.seq >= self._kept + KEPT_EVERY:
                await self._keep()

    async def _keep(self) -> None:
        self._kept = self._pending.seq
        await asyncio.to_thread(self._store.set_setting, PENDING, stored_pending(self._pending))

    async def _deliveries(self, entry: Journalled) -> list[Delivery]:
        happening, number = happening_of(entry.fact), job_of(entry.fact)
        if happening is None or number is None:
            return []
        about = await asyncio.to_thread(self._store.job, number)
        if about is None:
            return []
        job = await asyncio.to_thread(self._job, number)
        return list(self._addressed(happening, about, job, entry))

    def _job(self, number: int) -> Job | None:
        """Return a job as it was submitted: one that has ended is in the journal alone."""
        state = self._daemon.view.jobs.get(number)
        if state is not None:
            return state.job
        first = self._store.changes(0, number, limit=1)
        fact = first[0].fact if first else None
        if isinstance(fact, MemberSubmitted):
            submitted = self._store.changes(0, fact.sweep, limit=1)
            fact = submitted[0].fact if submitted else None
        if isinstance(fact, SweepSubmitted):
            return fact.sweep.template
        return fact.job if isinstance(fact, Submitted) else None

    def _addressed(
        self, happening: str, about: JobRecord, job: Job | None, entry: Journalled
    ) -> Iterator[Delivery]:
        notice = notice_of(happening, about, entry.fact.at, str(entry.seq))
        for key, each in self.subscriptions.items():
            if each.wants(happening, about.user, about.pool):
                yield Delivery(key, notice)
        if job is not None and happening in job.program.notify_on:
            yield Delivery(f"{OF_JOB}{about.number}", notice, url=job.program.notify)

    def _look_for_waiting(self) -> None:
        """Tell of jobs that have waited too long, once in each wait."""
        now, live = self._daemon.clock.now(), self._daemon.view.jobs
        if now < self._looked + LEAST_LOOK:
            return
        self._looked = now
        wanting = [each for each in self.subscriptions.values() if Happening.WAITING in each.on]
        self._waited = {pair for pair in self._waited if pair[1] in live}
        self._asking.intersection_update(live)
        for number in live if wanting else self._asking:
            if live[number].phase is Phase.WAITING:
                self._look_at(live[number], wanting, now)

    def _look_at(self, state: JobState, wanting: Sequence[Subscription], now: float) -> None:
        """Tell of a job if it has waited too long."""
        job, waited = state.job, now - max(state.submitted, state.since or 0.0)
        told = [
            (each.key, "", each.patience)
            for each in wanting
            if each.wants(Happening.WAITING, job.user, job.pool)
        ]
        if Happening.WAITING in job.program.notify_on:
            told.append((f"{OF_JOB}{job.number}", job.program.notify, PATIENCE))
        for key, url, patience in told:
            if waited >= patience and (key, job.number) not in self._waited:
                self._waited.add((key, job.number))
                about = self._daemon.record(job.number)
                notice = notice_of(Happening.WAITING, about, now, f"waiting-{job.number}")
                self._pending.add([Delivery(key, notice, url=url)])

    def _noted(self, facts: Sequence[Fact]) -> None:
        """Take in the new jobs that ask to be told of a long wait."""
        new = (job_of(fact) for fact in facts if isinstance(fact, Submitted | MemberSubmitted))
        self._asking |= _asking(filter(None, map(self._daemon.view.jobs.get, filter(None, new))))

    async def _deliver(self) -> None:
        """Try all that is due, each subscriber beside the others."""
        due = self._pending.due(self._daemon.clock.now())
        if not due:
            return
        errors = await asyncio.gather(*(self._attempt(each) for each in due))
        for each, error in zip(due, errors, strict=True):
            if each in self._pending.deliveries:  # else its subscription was removed meanwhile
                self._pending.note(each, error, self._daemon.clock.now())
            if error:
                log.warning("not told", to=each.to, what=each.notice.event, problem=error)
        await self._keep()

    async def _attempt(self, delivery: Delivery) -> str:
        if delivery.url:
            secret = await self.secret(str(delivery.notice.job["user"]))
            return await send_webhook(delivery.url, delivery.notice, secret, trusted=False)
        subscription = self.subscriptions.get(delivery.to)
        return "" if subscription is None else await self._tell(subscription, delivery.notice)

    async def _tell(self, subscription: Subscription, notice: Notice) -> str:
        if subscription.command:
            return await run_command(subscription.command, notice)
        secret = await self.secret(subscription.user)
        trusted = subscription.trusted
        return await send_webhook(subscription.webhook, notice, secret, trusted=trusted)


def _asking(jobs: Iterable[JobState]) -> set[int]:
    """Return those of these jobs that ask to be told of a long wait."""
    return {each.number for each in jobs if Happening.WAITING in each.job.program.notify_on}
