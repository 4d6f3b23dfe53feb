"""Brings agents to nodes that Slurm lends, and gives them back."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from muster.files.errors import InputError
from muster.model.duration import spelt
from muster.ports import NodeDemand, ProviderNews
from muster.providers.settings import EngineSettings
from muster.providers.slurm.commands import SlurmAwayError, SlurmCommands, SlurmError
from muster.providers.slurm.memory import PilotMemory
from muster.providers.slurm.options import SlurmOptions, read_options
from muster.providers.slurm.pilots import (
    Bounds,
    Pilot,
    Pilots,
    Steps,
    follow,
    refused,
    regard,
    steer,
    without_tasks,
)
from muster.providers.slurm.script import batch_script, pilot_arguments
from muster.providers.slurm.site import inspect

log = structlog.get_logger()

LOOK = 5.0
"""s between two looks at Slurm's queue: often enough for a preemption's grace, seldom enough for
slurmctld (`squeue` of one user and name takes it a few ms)."""
SOON = 0.5
"""s between two looks when the demand has changed."""
TOKEN = 30 * 86_400.0
"""s that a pilot may wait in Slurm's queue."""
AGENT = (sys.executable, "-m", "muster.agent")
"""The same Python on every node: the environment is on a shared file system, or at the same path."""
LEAD_PART, LEAD_MOST = 0.2, 1800.0
"""Part of an allocation's time before its end at which a replacement is queued, and s at most."""


def open_provider(settings: EngineSettings) -> "SlurmProvider":
    """Return the provider for the Slurm of this machine; InputError if it would refuse pilots."""
    return SlurmProvider(
        read_options(settings),
        lambda: str(settings.invite(None, 1, TOKEN)),
        settings.folder,
        connected=settings.connected,
    )


class SlurmProvider:
    """Follows the demand with pilots: allocations of one node that run an agent."""

    name = "slurm"

    def __init__(
        self,
        options: SlurmOptions,
        invite: Callable[[], str],
        folder: Path,
        *,
        connected: Callable[[], frozenset[str]] = frozenset,
        slurm: SlurmCommands | None = None,
        agent: tuple[str, ...] = AGENT,
        look: float = LOOK,
    ) -> None:
        self._options, self._invite, self._connected = options, invite, connected
        self._log_folder, self._agent, self._look = folder / "pilots", agent, look
        self._slurm = slurm or SlurmCommands()
        self._memory = PilotMemory.open(folder / "slurm.json")
        try:
            found = inspect(self._slurm, options, self.label, options.grace)
            self._memory.keep(site=found)
        except SlurmAwayError as error:
            # Jobs of an earlier daemon run whatever became of slurmctld.
            if self._memory.site is None:
                raise InputError.at("--engine slurm", str(error)) from None
            log.warning(str(error))
            found = self._memory.site
        self._site, self._bounds = found, _bounds(options, found.share.devices)
        now = time.monotonic()
        kept = (Pilot(job, now, host, joined=True) for job, host in self._memory.hosts.items())
        self._pilots = Pilots().with_(kept)
        self._said = NodeDemand({}), time.monotonic()
        """The last demand, and when. Before the first cycle: the least, and nothing is idle."""
        self._tell: Callable[[ProviderNews], None] = lambda news: None
        self._stopping, self._stirred = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._trouble = ""

    @property
    def label(self) -> str:
        """Name of the pilots in Slurm."""
        return self._memory.label

    def begin(self, tell: Callable[[ProviderNews], None]) -> None:
        """Find the pilots of an earlier daemon, then follow the demand."""
        self._tell = tell
        self._log_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._thread = threading.Thread(target=self._follow, name="slurm", daemon=True)
        self._thread.start()

    def want(self, demand: NodeDemand) -> None:
        """Follow this demand from now on."""
        changed = demand != self._said[0]
        self._said = demand, time.monotonic()
        if changed:
            self._stirred.set()

    def close(self) -> None:
        """Stop following, and give back what no task is on; other pilots stay, for the next daemon."""
        self._stopping.set()
        self._stirred.set()
        if self._thread is not None:
            self._thread.join()
        try:
            # One that waited at the last look may have a task by now.
            self._pilots, _ = self._looked(time.monotonic())
            unused = without_tasks(self._pilots, self._said[0])
            if unused:
                self._slurm.cancel(unused)
                log.info("given back to Slurm", jobs=list(unused))
        except SlurmError as error:  # they end by themselves when no daemon comes
            log.warning(f"idle nodes could not be given back to Slurm: {error}")

    # --- in its own thread ---

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
                self._trouble = ""
            except SlurmError as error:  # what is known stays true: pilots do not end with slurmctld
                self._complain(str(error))
            self._stopping.wait(SOON)
            self._stirred.wait(self._look - SOON)
            self._stirred.clear()

    def _turn(self) -> None:
        now = time.monotonic()
        failures = self._pilots.failures
        self._pilots, news = self._looked(now)
        if self._pilots.failures > failures:
            wait = spelt(round(self._pilots.retry_at - now))
            log.warning(
                f"a pilot ended before its agent joined; next in {wait}", logs=str(self._log_folder)
            )
        for each in news:
            self._tell(each)
        self._memory.keep(
            hosts={each.job: each.host for each in self._pilots.known.values() if each.running}
        )
        demand, said = self._said
        self._pilots = regard(self._pilots, demand, self._connected(), said)
        self._pilots, steps = steer(self._pilots, demand, self._bounds, now)
        self._perform(steps, now)

    def _looked(self, now: float) -> tuple[Pilots, tuple[ProviderNews, ...]]:
        """Return the pilots as Slurm knows them now, and what is new."""
        listed = self._slurm.jobs(self.label)
        draining = self._slurm.draining(self._options.partition)
        return follow(self._pilots, listed, draining, now)

    def _perform(self, steps: Steps, now: float) -> None:
        for each in steps.news:
            self._tell(each)
        if steps.cancel:
            self._slurm.cancel(steps.cancel)
            log.info("given back to Slurm", jobs=list(steps.cancel))
        for _ in range(steps.submit):
            try:
                number = self._submit()
            except SlurmAwayError:
                raise
            except SlurmError as error:
                self._pilots = refused(self._pilots, now)
                self._complain(f"Slurm refuses a pilot: {error}")
                return
            self._pilots = self._pilots.with_([Pilot(number, now)])
            log.info("asked Slurm for a node", job=number, partition=self._options.partition)

    def _submit(self) -> int:
        arguments = pilot_arguments(self._options, self._site.share, self.label, self._options.grace)
        waits = self._site.kill_wait, self._options.away
        script = batch_script(self._agent, self._invite(), str(self._log_folder), *waits)
        return self._slurm.submit(arguments, script)

    def _complain(self, trouble: str) -> None:
        """Log a trouble once, however long it lasts."""
        if trouble != self._trouble:
            log.warning(trouble)
        self._trouble = trouble


def _bounds(options: SlurmOptions, devices: int) -> Bounds:
    lead = max(2 * options.grace, min(LEAD_MOST, options.time * LEAD_PART))
    return Bounds(options.least, options.most, devices, options.idle, lead, options.grace)
