"""What can be asked of a daemon, by whoever: the API puts it on HTTP and adds nothing of its own."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from muster.model.job import Job
from muster.model.pool import Quota
from muster.model.task import LogPiece
from muster.wire.records import (
    ChangeRecord,
    Forecast,
    JobDetail,
    JobPage,
    JobRecord,
    NodeRecord,
    PolicyRecord,
    PoolRecord,
    StatusRecord,
    TokenRecord,
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. An administrator may do everything; a user sees and stops their own jobs, and those of
    pools that are shared."""

    user: str
    admin: bool = False


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs, newest first. `cursor`: the `next` of the page before."""

    statuses: tuple[str, ...] = ()
    user: str | None = None
    pool: str | None = None
    name: str | None = None
    cursor: str | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Shape:
    """Numbers of tasks that a user asks for; None: as before."""

    least: int
    most: int
    servers: int | None = None


class ServiceError(Exception):
    """A request that was not carried out, and why, in one sentence with the remedy."""


class NotFoundError(ServiceError):
    """Nothing of that name, or nothing that the caller may know of."""


class ForbiddenError(ServiceError):
    """The caller may not do that."""


class ConflictError(ServiceError):
    """It does not go with how things stand: a name in use, a job that is over."""


class RefusedError(ServiceError):
    """What is asked could never be; the message names the nearest that could."""


class UnavailableError(ServiceError):
    """The daemon cannot now: the journal cannot be written, or another daemon is in charge."""


class Service(Protocol):
    """`which`: a job's number or name; of several jobs of one name the newest."""

    async def submit(self, caller: Caller, job: Job, key: str | None = None) -> JobRecord:
        """Take a job in; with a key that this user gave before, the job of then."""
        ...

    async def forecast(self, caller: Caller, job: Job) -> Forecast:
        """What would become of the job if it were submitted now."""
        ...

    async def jobs(self, caller: Caller, query: JobQuery) -> JobPage:
        """The jobs that the caller may see."""
        ...

    async def job(self, caller: Caller, which: str) -> JobDetail:
        """All about one job."""
        ...

    async def stop(self, caller: Caller, which: str) -> JobRecord:
        """End a job: it is `stopping` until its tasks are gone. Twice is once."""
        ...

    async def resize(self, caller: Caller, which: str, shape: Shape) -> JobRecord:
        """Ask for other numbers of workers."""
        ...

    async def log(
        self, caller: Caller, which: str, log: str, offset: int = 0, size: int = 65536
    ) -> LogPiece:
        """A part of a log, by its name in `TaskRecord.log`; negative offsets count from the end."""
        ...

    async def changes(
        self, caller: Caller, after: int | None, which: str | None = None, limit: int = 500
    ) -> list[ChangeRecord]:
        """What happened after a number in the journal, oldest first; None: the latest."""
        ...

    def follow(
        self, caller: Caller, after: int | None, which: str | None = None
    ) -> AsyncIterator[ChangeRecord]:
        """The same, and then whatever happens, for as long as it is read; of one job: to its end."""
        ...

    async def nodes(self, caller: Caller) -> list[NodeRecord]:
        """All nodes."""
        ...

    async def drain(self, caller: Caller, node: str) -> NodeRecord:
        """Give a node no new tasks."""
        ...

    async def resume(self, caller: Caller, node: str) -> NodeRecord:
        """Use a drained node again."""
        ...

    async def pools(self, caller: Caller) -> list[PoolRecord]:
        """All pools."""
        ...

    async def set_pool(
        self,
        caller: Caller,
        name: str,
        parent: str | None,
        quotas: Mapping[str, Quota],
        shared: bool | None = None,
    ) -> PoolRecord:
        """Make a pool, or change it: what is not named stays."""
        ...

    async def remove_pool(self, caller: Caller, name: str) -> None:
        """Remove a pool without jobs."""
        ...

    async def policy(self, caller: Caller) -> PolicyRecord:
        """The policy in force."""
        ...

    async def set_policy(self, caller: Caller, name: str) -> PolicyRecord:
        """Choose a policy, from the next cycle on."""
        ...

    async def tokens(self, caller: Caller) -> list[TokenRecord]:
        """All tokens, without their secrets; a user's own."""
        ...

    async def create_token(self, caller: Caller, name: str, user: str, role: str) -> TokenRecord:
        """Make a token; this answer alone has its secret."""
        ...

    async def revoke_token(self, caller: Caller, name: str) -> None:
        """Make a token invalid at once."""
        ...

    async def identify(self, secret: str) -> Caller | None:
        """Whose token it is; None: nobody's."""
        ...

    async def status(self) -> StatusRecord:
        """How the daemon is; needs no token, and says nothing of jobs but their numbers."""
        ...

    def metrics(self) -> bytes:
        """Prometheus' text form."""
        ...
