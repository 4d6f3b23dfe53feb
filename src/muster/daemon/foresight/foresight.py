"""The daemon's foresight: what it is told after each cycle, and forecasts that follow every change."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from muster.daemon.foresight.messages import ForesightError, Question
from muster.daemon.foresight.process import ForesightProcess
from muster.daemon.loop.loop import Daemon
from muster.foresight.forecaster import Forecaster
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
at most half a core, at the lowest priority."""
ANYWAY = 30.0
"""s after which live jobs are forecast even if nothing has changed: they have progressed."""


class Foresight:
    """Follows a daemon, and knows when its jobs start and end."""

    def __init__(self, daemon: Daemon, process: ForesightProcess | None = None) -> None:
        self._daemon, self.process = daemon, process or ForesightProcess()
        self._outlooks: Mapping[int, Outlook] = {}
        self._stopped: set[int] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.forecasts: Mapping[int, JobForecast] = {}
        """Of live jobs, by number, as last played."""
        self.made = 0.0
        """s of the view that they began with."""
        self.took = 0.0
        """s until they were there."""
        self.told: list[Callable[[Mapping[int, JobForecast], float], None]] = []
        """Called with new forecasts, and the s they were made for."""

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

    async def ask(self, question: Question, *, within: float = PATIENCE, yields: bool = False) -> Any:
        """Return the answer to a question about the present; raises ForesightError.

        `yields`: other questions may be answered in between."""
        daemon = self._daemon
        memory = await daemon.deciding.remembered()
        now = daemon.clock.now()
        self._outlooks = daemon.beliefs.outlooks(daemon.view, now)
        self._see(daemon.view, now)
        asked = self.process.ask(question, daemon.state.policy, memory, yields=yields)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(asked), within)
        except TimeoutError:
            raise ForesightError(f"not answered within {within:g} s") from None

    # --- what the daemon tells ---

    def _decided(self, view: View) -> None:
        """Take in the view after a cycle."""
        if view.jobs or self.forecasts:
            self._see(view, self._daemon.clock.now())
            self._changed.set()

    def _noted(self, facts: Sequence[Fact]) -> None:
        """Remember which jobs somebody stopped: they would have taken longer."""
        self._stopped |= {each.job for each in facts if isinstance(each, Cancelled | Skipped)}

    def _see(self, view: View, now: float) -> None:
        stopped, self._stopped = frozenset(self._stopped), set()
        self.process.see(replace(view, outlooks=self._outlooks), now, stopped)

    # --- forecasts of all jobs ---

    async def _run(self) -> None:
        """Forecast after every change, the newest state each time."""
        version = None
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), ANYWAY)
            self._changed.clear()
            if not self._daemon.view.jobs:
                self.forecasts = {}
                continue
            if self._daemon.view.version == version and not self._is_old():
                continue
            version = self._daemon.view.version
            await self._refresh()
            await asyncio.sleep(REST + self.process.busy)

    def _is_old(self) -> bool:
        return self._daemon.clock.now() >= self.made + ANYWAY

    async def _refresh(self) -> None:
        begun = self._daemon.clock.now()
        try:
            found = await self.ask(forecast_all, yields=True)
        except ForesightError as error:
            log.warning("no forecast", problem=str(error))
            return
        now = self._daemon.clock.now()
        self.forecasts, self.made, self.took = found, begun, now - begun
        for call in self.told:
            call(found, begun)


def forecast_all(present: Present, forecaster: Forecaster) -> dict[int, JobForecast]:
    """Forecast every live job."""
    return forecaster.ask(present)
