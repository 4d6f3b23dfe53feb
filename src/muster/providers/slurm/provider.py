"""Brings agents to nodes that Slurm lends, and gives them back."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from muster.files.errors import InputError, one_of
from muster.model.duration import spelt
from muster.ports import NodeDemand, ProviderNews
from muster.providers.slurm.commands import HostFacts, SlurmAwayError, SlurmCommands, SlurmError
from muster.providers.slurm.options import GRACE, SlurmOptions
from muster.providers.slurm.pilots import Bounds, Pilot, Pilots, Steps, follow, refused, regard, steer
from muster.providers.slurm.script import batch_script, pilot_arguments, share_of

log = structlog.get_logger()

LOOK = 5.0
"""s between two looks at Slurm's queue: often enough for a preemption's grace, seldom enough for
slurmctld (`squeue` of one user and name takes it a few ms)."""
SOON = 0.5
"""s between two looks when the demand has changed."""
AGENT = (sys.executable, "-m", "muster.agent")
"""The same Python on every node: the environment is on a shared file system, or at the same path."""
LEAD_PART, LEAD_MOST = 0.2, 1800.0
"""Part of an allocation's time before its end at which a replacement is queued, and s at most."""


class SlurmProvider:
    """Follows the demand with pilots: allocations of one node that run an agent."""

    name = "slurm"

    def __init__(
        self,
        options: SlurmOptions,
        invite: Callable[[], str],
        folder: Path,
        label: str,
        *,
        slurm: SlurmCommands | None = None,
        agent: tuple[str, ...] = AGENT,
        look: float = LOOK,
    ) -> None:
        """`label`: the pilots' name in Slurm, by which a later daemon of the same store finds them."""
        self._options, self._invite, self._label = options, invite, label
        self._log_folder, self._agent, self._look = folder / "pilots", agent, look
        self._slurm = slurm or SlurmCommands()
        self._pilots = Pilots()
        self._demand: NodeDemand | None = None
        self._tell: Callable[[ProviderNews], None] = lambda news: None
        self._stopping, self._stirred = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._trouble = ""
        hosts = self._checked()
        self._share = share_of(options, hosts)
        self._grace = min(GRACE, options.time / 4)
        lead = max(2 * self._grace, min(LEAD_MOST, options.time * LEAD_PART))
        self._bounds = Bounds(
            options.least,
            options.most,
            self._share.devices,
            options.idle,
            min(lead, options.time / 2),
            self._grace,
        )

    def begin(self, tell: Callable[[ProviderNews], None]) -> None:
        """Find the pilots of an earlier daemon, then follow the demand."""
        self._tell = tell
        self._log_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._thread = threading.Thread(target=self._follow, name="slurm", daemon=True)
        self._thread.start()

    def want(self, demand: NodeDemand) -> None:
        """Follow this demand from now on."""
        changed = self._demand is None or demand != self._demand
        self._demand = demand
        if changed:
            self._stirred.set()

    def close(self) -> None:
        """Stop following; pilots stay in Slurm's queue and on their nodes."""
        self._stopping.set()
        self._stirred.set()
        if self._thread is not None:
            self._thread.join()

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
        listed = self._slurm.jobs(self._label)
        draining = self._slurm.draining(self._options.partition)
        now = time.monotonic()
        failures = self._pilots.failures
        self._pilots, news = follow(self._pilots, listed, draining, now)
        if self._pilots.failures > failures:
            wait = spelt(round(self._pilots.retry_at - now))
            log.warning(
                f"a pilot ended before its agent joined; next in {wait}", logs=str(self._log_folder)
            )
        for each in news:
            self._tell(each)
        demand = self._demand
        if demand is None:  # before the first cycle nobody knows which nodes are in use
            return
        self._pilots = regard(self._pilots, demand, now)
        self._pilots, steps = steer(self._pilots, demand, self._bounds, now)
        self._perform(steps, now)

    def _perform(self, steps: Steps, now: float) -> None:
        for each in steps.news:
            self._tell(each)
        if steps.cancel:
            self._slurm.cancel(steps.cancel)
            log.info("given back to Slurm", jobs=list(steps.cancel))
        arguments = pilot_arguments(self._options, self._share, self._label, self._grace)
        for _ in range(steps.submit):
            script = batch_script(self._agent, self._invite(), str(self._log_folder), self._grace)
            try:
                number = self._slurm.submit(arguments, script)
            except SlurmAwayError:
                raise
            except SlurmError as error:
                self._pilots = refused(self._pilots, now)
                self._complain(f"Slurm refuses a pilot: {error}")
                return
            self._pilots = self._pilots.with_([Pilot(number, now)])
            log.info("asked Slurm for a node", job=number, partition=self._options.partition)

    def _complain(self, trouble: str) -> None:
        """Log a trouble once, however long it lasts."""
        if trouble != self._trouble:
            log.warning(trouble)
        self._trouble = trouble

    # --- at the start ---

    def _checked(self) -> tuple[HostFacts, ...]:
        """Return the partition's machines, or one line that says what is wrong."""
        options = self._options
        try:
            self._slurm.present()
            hosts = self._slurm.hosts(options.partition)
            if not hosts:
                known = self._slurm.partitions()
                raise InputError.at(
                    "--partition", one_of(options.partition, "partition of Slurm", known)
                )
            limit = max(host.limit or float("inf") for host in hosts)
            if options.time > limit:
                raise InputError.at(
                    "--time",
                    f"partition {options.partition} allows {spelt(limit)} at most; Muster renews "
                    "allocations, so that jobs may last longer",
                )
            self._slurm.try_out(pilot_arguments(options, share_of(options, hosts), self._label, GRACE))
        except SlurmError as error:
            raise InputError.at("--engine slurm", str(error)) from None
        return hosts
