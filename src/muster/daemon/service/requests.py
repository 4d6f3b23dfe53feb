"""What all requests share: the daemon, the store, and errors."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import structlog

from muster.core.state.event_errors import EventError
from muster.core.state.lifecycle import LifecycleError
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon
from muster.daemon.loop.state import State
from muster.daemon.service.governing.audit import Refusals, taken_act
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    ForbiddenError,
    RefusedError,
    UnavailableError,
)
from muster.model.event import Submitted
from muster.model.task import Fact, job_of
from muster.store.errors import StoreError, UnwritableError
from muster.wire.api.records import ActRecord, JobRecord

log = structlog.get_logger()

T = TypeVar("T")
SHARED = "shared pools"
"""The setting with the names of shared pools."""


class Requests:
    """Passes requests to the daemon and its store."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon, self._store = daemon, daemon.store
        self._admitted: dict[tuple[object, ...], str] = {}
        """Why requests could never run, by shape and pools."""
        shared = daemon.store.setting(SHARED)
        self._shared = set(shared.split("\n")) if shared else set()
        self._refusals = Refusals()

    def now(self) -> float:
        """Return the daemon's time."""
        return self._daemon.clock.now()

    async def _put(self, entry: Entry) -> None:
        """Hand facts to the daemon; raises its errors as those of the service."""
        self._refuse_trouble()
        entry.act = taken_act(self._job_in(entry))
        try:
            await self._daemon.put(entry)
        except (EventError, LifecycleError) as error:
            raise ConflictError(str(error)) from None
        except UnwritableError as error:
            raise RefusedError(str(error)) from None
        except StoreError as error:
            raise UnavailableError(
                f"nothing was changed: the journal cannot be written ({error})"
            ) from None

    async def _put_current(self, facts: Callable[[State], list[Fact]]) -> None:
        """Hand over facts that depend on what the job does by then: a cycle may overtake a request."""
        await self._put(Entry(facts(self._daemon.state), current=facts))

    def _refuse_trouble(self) -> None:
        if self._daemon.trouble:
            raise UnavailableError(f"the journal cannot be written: {self._daemon.trouble}")

    def _job_in(self, entry: Entry) -> str | None:
        """The job that an entry is about, as `12 (ann/train)`; of several, their number, too."""
        others = len({job_of(fact) for fact in entry.facts}) - 1
        for fact in entry.facts:
            state = self._daemon.view.jobs.get(job_of(fact) or 0)
            job = fact.job if isinstance(fact, Submitted) else state.job if state else None
            if job is not None:
                return f"{job.number} ({job.full_name}){f' and {others} more' if others > 0 else ''}"
        return None

    async def log_act(self, act: ActRecord) -> None:
        """Write to the audit log what changes no state of the daemon's."""
        try:
            await self._read(self._store.add_acts, [act])
        except UnavailableError as error:  # a full disk must not lock callers out
            log.error("not in the audit log", act=act.act, user=act.user, problem=str(error))

    async def log_refusal(self, act: ActRecord) -> None:
        """Write a refused request to the audit log, unless there are too many."""
        refusal = self._refusals.to_log(act)
        if refusal is not None:
            await self.log_act(refusal)

    def _may(self, caller: Caller, record: JobRecord) -> bool:
        return caller.admin or record.user == caller.user or record.pool in self._shared

    def _visible(self, caller: Caller) -> tuple[str, tuple[str, ...]] | None:
        """The user and the pools whose jobs the caller may see, for the store; None: all."""
        return None if caller.admin else (caller.user, tuple(self._shared))

    async def _read(self, ask: Callable[..., T], *arguments: object) -> T:
        """Call the store off the event loop."""
        try:
            return await asyncio.to_thread(ask, *arguments)
        except StoreError as error:
            raise UnavailableError(str(error)) from None


def admins_only(caller: Caller) -> None:
    if not caller.admin:
        raise ForbiddenError("only administrators may do that; use a token with the role admin")
