"""The daemon's foresight: what it is told after each cycle, and forecasts that follow every change."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import structlog

from muster.daemon.account.budgets import next_month
from muster.daemon.foresight.account import outcomes, remembered, row_of, scored
from muster.daemon.foresight.kept_back import KeptBack
from muster.daemon.foresight.messages import Forecasts, ForesightError, Question
from muster.daemon.foresight.past_notes import KIND, note_of
from muster.daemon.foresight.process import ForesightProcess
from muster.daemon.loop.foretold import Foretold
from muster.daemon.loop.loop import Daemon
from muster.foresight.effort import WORLDS
from muster.foresight.forecaster import Forecaster
from muster.foresight.kept import BEGIN, KeptForecast
from muster.foresight.play import JobForecast, Present
from muster.model.event import Cancelled, Skipped
from muster.model.outlook import Outlook
from muster.model.task import Fact
from muster.model.view import View

log = structlog.get_logger()

PATIENCE = 120.0
"""s in which a question must be answered."""
REST = 1.0
"""Least s between the end of a forecast and the next, which also rests for as long as the last took:
at most half a core, at low priority."""
WAITED = 3.0
"""s that somebody waits for a forecast, about: for that, fewer worlds are played."""
FEWEST = 4
"""Worlds that are played at least."""
ANYWAY = 30.0
"""s after which live jobs are forecast even if nothing has changed: they have progressed."""
QUIET = 20.0
"""Least s between two forecasts of what has not changed, for each s that one takes: a twentieth of a
core, however long the queue."""
AGAIN = 10.0
"""s from a fault of ours to the next forecast."""


class LiveForesight:
    """Follows a daemon, and knows when its jobs start and end."""

    def __init__(self, daemon: Daemon, process: ForesightProcess | None = None) -> None:
        self._daemon = daemon
        self.process = process or ForesightProcess(
            lambda: remembered(daemon.store, frozenset(daemon.view.jobs), self._began)
        )
        self._began = daemon.clock.now()
        """s since when it has followed."""
        self._kept: dict[int, list[KeptForecast]] = {}
        """Forecasts of live jobs of which nothing has come yet."""
        self._outlooks: Mapping[int, Outlook] = {}
        self._untimed: frozenset[int] = frozenset()
        """Jobs of whose steps nobody knew the length when they were last forecast."""
        self._kept_back = KeptBack()
        self._stopped: set[int] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.forecasts: Mapping[int, JobForecast] = {}
        """Of live jobs, by number, as last played."""
        self.busy = 0.0
        """s of processor time that they took."""
        self.made = 0.0
        """s of the view that they began with."""
        self.took = 0.0
        """s until they were there."""
        self.told: list[Callable[[Mapping[int, JobForecast]], None]] = [daemon.follower.foretold]
        """Called with new forecasts."""

    def begin(self) -> None:
        """Follow the daemon from now on."""
        self._daemon.decided.append(self._decided)
        self._daemon.noted.append(self._noted)
        self.process.start()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="muster-foresight")

    async def close(self) -> None:
        """End the process; the last forecasts stay."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await asyncio.to_thread(self.process.close)

    @property
    def is_warm(self) -> bool:
        """Whether a question would be answered at once: the process has answered some."""
        return self.process.pid is not None and self.process.busy > 0.0

    @property
    def worlds(self) -> int:
        """Worlds that can be played while somebody waits: all, unless the queue is long."""
        share = WAITED / max(self.took, WAITED)
        return max(FEWEST, int(WORLDS * share))

    async def ask(
        self, question: Question, *, within: float | None = PATIENCE, yields: bool = False
    ) -> Any:
        """Return the answer to a question about the present; raises ForesightError.

        `within`: s; None: however long it takes. `yields`: other questions may be answered between."""
        daemon = self._daemon
        memory = await daemon.deciding.remembered()
        now = daemon.clock.now()
        self._outlooks = daemon.beliefs.outlooks(daemon.view, now)
        self._kept_back.bar(daemon.accounts.budgets.barred(daemon.view, now), next_month(now))
        self._see(daemon.view, now)
        asked = self.process.ask(question, daemon.state.policy, memory, yields=yields)
        try:
            async with asyncio.timeout(within):
                return await asyncio.wrap_future(asked)
        except TimeoutError:
            raise ForesightError(f"not answered within {within:g} s") from None

    # --- what the daemon tells ---

    def _decided(self, view: View) -> None:
        """Take in the view after a cycle."""
        if view.jobs or self.forecasts:
            self._see(view, self._daemon.clock.now())
            self._changed.set()

    def _noted(self, facts: Sequence[Fact]) -> None:
        """Score forecasts; jobs that somebody stopped would have taken longer."""
        self._stopped |= {each.job for each in facts if isinstance(each, Cancelled | Skipped)}
        found = tuple(each for each in outcomes(facts) if each.number in self._kept)
        for each in found:
            for told in scored(self._kept[each.number], each):
                self._daemon.metrics.forecasts.score(*told)
            left = [kept for kept in self._kept[each.number] if kept.what != each.what]
            self._kept[each.number] = left
        for number in {each.number for each in found}.difference(self._daemon.view.jobs):
            del self._kept[number]
        if found:
            self._daemon.foretell(Foretold(outcomes=found))

    def _see(self, view: View, now: float) -> None:
        stopped, self._stopped = frozenset(self._stopped), set()
        shown = self._kept_back.shown(replace(view, outlooks=self._outlooks))
        self.process.see(shown, now, stopped)

    # --- forecasts of all jobs ---

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except Exception:  # the daemon does without forecasts, not the other way round
                log.exception("forecasts failed; they are made again soon", seconds=AGAIN)
                await asyncio.sleep(AGAIN)

    async def _follow(self) -> None:
        """Forecast after every change, the newest state each time."""
        version = self._daemon.view.version
        if self._daemon.view.jobs or self._daemon.store.notes(KIND, 1):
            await self._refresh()  # who asks next need not wait for the process to start
        while True:
            # Not `wait_for`: in Python 3.11 it loses a stop that comes together with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._until_old()):
                    await self._changed.wait()
            self._changed.clear()
            view = self._daemon.view
            if view.version == version and not (view.jobs and (self._is_old() or self._is_timed_now())):
                continue
            version = view.version
            await self._refresh()  # also once nobody is left: those that ended last are noted
            await asyncio.sleep(REST + self.busy)

    def _is_old(self) -> bool:
        return self._daemon.clock.now() >= self._old_at()

    def _until_old(self) -> float:
        """Return the s until the forecasts are old, at least what lies between two of them."""
        return max(REST, min(ANYWAY, self._old_at() - self._daemon.clock.now()))

    def _old_at(self) -> float:
        """Return when live jobs are to be forecast even if nothing changes: after a while, or once one
        has outlasted its interval, which then says nothing."""
        ends = (_last(each) for each in self.forecasts.values())
        out = min((end for end in ends if end is not None and end > self.made), default=inf)
        return max(min(self.made + ANYWAY, out), self.made + QUIET * self.busy)

    def _is_timed_now(self) -> bool:
        """Whether a job that had no finish has one now: its first steps were measured."""
        return bool(self._untimed) and not self._untimed <= self._find_untimed()

    def _find_untimed(self) -> frozenset[int]:
        found = self._daemon.beliefs.outlooks(self._daemon.view, self._daemon.clock.now())
        return frozenset(number for number, each in found.items() if not each.timed)

    async def _refresh(self) -> None:
        begun, self._untimed = self._daemon.clock.now(), self._find_untimed()
        try:
            # One that is given up is played to its end all the same: another would come on top.
            answer: Forecasts = await self.ask(forecast_all, within=None, yields=True)
        except ForesightError as error:
            log.warning("no forecast", problem=str(error))
            return
        now, found = self._daemon.clock.now(), answer.forecasts
        self.forecasts, self.made, self.took = found, begun, now - begun
        self.busy = answer.seconds
        self._keep(answer, now)
        self._daemon.metrics.forecasts.show(found, self._daemon.view, self.took)
        for call in self.told:
            call(found)

    def _keep(self, answer: Forecasts, now: float) -> None:
        """Store what is to be held to account, and the jobs to learn from."""
        jobs = self._daemon.view.jobs
        # What has come true meanwhile was no forecast.
        waiting = {number for number, state in jobs.items() if state.placement is None}
        kept = [e for e in answer.kept if e.number in (waiting if e.what == BEGIN else jobs)]
        for each in kept:
            self._kept.setdefault(each.number, []).append(each)
        types = self._daemon.view.cluster.device_types()
        notes = (note_of(each, types, now) for each in answer.ended)
        made = tuple(map(row_of, kept))
        self._daemon.foretell(Foretold(made, notes=tuple(note for note in notes if note)))


def _last(forecast: JobForecast) -> float | None:
    """Return the end of what is told of the job's next change, s; None: nothing is told."""
    said = forecast.known_finish if forecast.start is None else forecast.known_start
    return None if said is None else said.high


def forecast_all(present: Present, forecaster: Forecaster) -> Forecasts:
    """Forecast every live job."""
    begun = time.process_time()
    found = forecaster.ask(present)
    seconds = time.process_time() - begun
    return Forecasts(found, tuple(forecaster.taken()), tuple(forecaster.past.take_ended()), seconds)
