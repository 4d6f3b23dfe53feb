"""The service of a daemon. The API puts it on HTTP and adds nothing of its own."""

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from muster.daemon.service.caller import Caller
from muster.daemon.service.errors import (
    ConflictError,
    FieldRefusedError,
    ForbiddenError,
    LimitedError,
    NotFoundError,
    RefusedError,
    ServiceError,
    UnavailableError,
)
from muster.daemon.service.governing.pool_change import PoolRules
from muster.daemon.whatif.asked import AskedWhatIf
from muster.model.job import Job
from muster.model.pool import Quota
from muster.model.sweep import Sweep
from muster.model.task import LogPiece
from muster.wire.api.foresight_records import AccuracyRecord, JobForecastRecord
from muster.wire.api.history_records import JobCurves, TimelinePage
from muster.wire.api.map_records import ClusterMap
from muster.wire.api.records import (
    ActRecord,
    ChangeRecord,
    Forecast,
    IdentityRecord,
    InvitationRecord,
    JobDetail,
    JobPage,
    JobRecord,
    NodeRecord,
    PackRecord,
    PolicyRecord,
    PoolRecord,
    RotationRecord,
    StatusRecord,
    TokenRecord,
)
from muster.wire.api.story_records import JobStory
from muster.wire.api.sweep_records import SweepDetail, SweepRecord
from muster.wire.api.use_records import LimitRecord, SubscriptionRecord, TrialRecord, UsageReport
from muster.wire.api.whatif_records import DefragRecord, WhatIfRecord
from muster.wire.visits.visits import Visit

__all__ = [
    "ME",
    "Caller",
    "ConflictError",
    "FieldRefusedError",
    "ForbiddenError",
    "JobQuery",
    "LimitedError",
    "NotFoundError",
    "RefusedError",
    "Service",
    "ServiceError",
    "Shape",
    "UnavailableError",
]

ME = "@me"
"""Stands for the caller in a filter: no user is called so."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs to list. `name`: a name, or a pattern with * and ?; `user`: a name, or `ME` for the
    caller; `cursor`: the `next` of the previous page."""

    statuses: tuple[str, ...] = ()
    user: str | None = None
    pool: str | None = None
    name: str | None = None
    cursor: str | None = None
    limit: int = 100
    active_first: bool = False
    """Jobs with tasks, then waiting ones, then ended ones, each newest first; else all newest first."""
    labels: tuple[tuple[str, str | None], ...] = ()
    """Keys, each with its value or None for any."""
    since: float | None = None
    """Submitted at this time, in s, or later."""
    until: float | None = None
    """Submitted before this time."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many tasks a user asks for; None: unchanged."""

    least: int
    most: int
    servers: int | None = None


class Service(Protocol):
    """`which`: a job's number; the name of one of the caller's jobs, of several the newest; or
    `user/name`. Digits are always a number."""

    async def submit(self, caller: Caller, job: Job, key: str | None = None) -> JobRecord:
        """Submit a job; with a key that this user has used before, return that job."""
        ...

    async def submit_all(
        self, caller: Caller, jobs: Sequence[Job], key: str | None = None
    ) -> list[JobRecord]:
        """Submit jobs together, parents first: all of them or none."""
        ...

    async def pack(self, caller: Caller, digest: str) -> PackRecord:
        """Return how much of a packed folder the caller has uploaded."""
        ...

    async def put_pack(
        self, caller: Caller, digest: str, offset: int, data: bytes, last: bool
    ) -> PackRecord:
        """Take a part of a packed folder; a part that is there already is ignored."""
        ...

    async def forecast(self, caller: Caller, job: Job) -> Forecast:
        """Predict when and where the job would run if it were submitted now."""
        ...

    async def ask_what_if(self, caller: Caller, asked: AskedWhatIf) -> WhatIfRecord:
        """Begin to play the futures of the live jobs with and without some changes."""
        ...

    async def what_if(self, caller: Caller, key: str) -> WhatIfRecord:
        """Return how far a question of the caller is, and its answer once that is there."""
        ...

    async def jobs(self, caller: Caller, query: JobQuery) -> JobPage:
        """List the jobs visible to the caller."""
        ...

    async def job(self, caller: Caller, which: str) -> JobDetail:
        """Return one job in detail."""
        ...

    async def request(self, caller: Caller, which: str) -> dict[str, Any]:
        """Return the job file that would submit a job again; for its owner and administrators."""
        ...

    async def stop(self, caller: Caller, which: str, force: bool = False) -> JobRecord:
        """Stop a job. It is `stopping` until its tasks have ended. Idempotent."""
        ...

    async def stop_all(self, caller: Caller, query: JobQuery, force: bool = False) -> list[JobRecord]:
        """Stop the live jobs of a list together; the list's cursor and limit do not count."""
        ...

    async def hold(self, caller: Caller, which: str) -> JobRecord:
        """Keep a job from running until it is released. Idempotent."""
        ...

    async def release(self, caller: Caller, which: str) -> JobRecord:
        """Let a held job run again. Idempotent."""
        ...

    async def requeue(self, caller: Caller, which: str) -> JobRecord:
        """Stop a running job and queue it again."""
        ...

    async def set_priority(self, caller: Caller, which: str, priority: int) -> JobRecord:
        """Change a job's priority, from the next cycle on."""
        ...

    async def set_until(self, caller: Caller, which: str, until: str) -> JobRecord:
        """Change when the loss ends a job's training; empty: it no longer does."""
        ...

    async def resize(self, caller: Caller, which: str, shape: Shape) -> JobRecord:
        """Change how many workers a job asks for."""
        ...

    async def submit_sweep(self, caller: Caller, sweep: Sweep, key: str | None = None) -> SweepRecord:
        """Submit a sweep; with a key that this user has used before, return that sweep."""
        ...

    async def sweeps(
        self, caller: Caller, cursor: str | None = None, limit: int = 100
    ) -> list[SweepRecord]:
        """List the sweeps visible to the caller, newest first. `cursor`: the last number before."""
        ...

    async def sweep(self, caller: Caller, which: str) -> SweepDetail:
        """Return a sweep with its members."""
        ...

    async def stop_sweep(self, caller: Caller, which: str, force: bool = False) -> SweepRecord:
        """Stop all members of a sweep; no further one enters the queue. Idempotent."""
        ...

    async def resize_sweep(self, caller: Caller, which: str, at_most: int) -> SweepRecord:
        """Change how many members may have tasks at once; 0: any number."""
        ...

    async def continue_sweep(
        self, caller: Caller, which: str, members: Sequence[str], arguments: Sequence[str] = ()
    ) -> list[JobRecord]:
        """Submit jobs that go on from the checkpoints of members that are over."""
        ...

    async def log(
        self, caller: Caller, which: str, log: str, offset: int = 0, size: int = 65536
    ) -> LogPiece:
        """Read a part of a log, named as in `TaskRecord.log`; negative offsets count from the end."""
        ...

    async def visit(
        self,
        caller: Caller,
        which: str,
        visit: Visit,
        task: str | None = None,
        rank: int | None = None,
    ) -> socket.socket:
        """Open a way into a task of a job, by default its first worker; for its owner and
        administrators."""
        ...

    async def changes(
        self, caller: Caller, after: int | None, which: str | None = None, limit: int = 500
    ) -> list[ChangeRecord]:
        """List events after a number in the journal, oldest first; None: the latest."""
        ...

    def follow(
        self, caller: Caller, after: int | None, which: str | None = None
    ) -> AsyncIterator[Sequence[ChangeRecord]]:
        """Yield the same, and then new events, those that are there at once together; for one job until
        it ends."""
        ...

    async def curves(self, caller: Caller, which: str, after: float = 0.0) -> JobCurves:
        """Return how a training went, later than a moment, and what it held meanwhile."""
        ...

    async def timeline(
        self,
        caller: Caller,
        since: float | None = None,
        until: float | None = None,
        cursor: str | None = None,
        limit: int = 1_000,
    ) -> TimelinePage:
        """List who held which devices, by default within the last day; of jobs that the caller may
        not see, only that they did."""
        ...

    async def accuracy(
        self, caller: Caller, what: str, since: float, pool: str | None = None
    ) -> AccuracyRecord:
        """Return how forecasts of starts or finishes since a moment came true."""
        ...

    async def forecasts(self, caller: Caller, which: str) -> list[JobForecastRecord]:
        """List what was forecast of a job, and what came of it."""
        ...

    async def story(
        self, caller: Caller, which: str, advice: bool = True, every: bool = False
    ) -> JobStory:
        """Tell what happened to a job, what keeps it now, and with `advice` what would help."""
        ...

    async def nodes(self, caller: Caller) -> list[NodeRecord]:
        """List nodes."""
        ...

    async def map(self, caller: Caller) -> ClusterMap:
        """Return which job each device works for, or is withheld for."""
        ...

    async def node(self, caller: Caller, name: str) -> NodeRecord:
        """Return a node with its tasks."""
        ...

    async def drain(self, caller: Caller, node: str, within: float | None = None) -> NodeRecord:
        """Place no new tasks on a node; `within`: seconds until it must be empty."""
        ...

    async def resume(self, caller: Caller, node: str) -> NodeRecord:
        """Use a drained node again."""
        ...

    async def pools(self, caller: Caller) -> list[PoolRecord]:
        """List pools."""
        ...

    async def set_pool(
        self,
        caller: Caller,
        name: str,
        parent: str | None,
        quotas: Mapping[str, Quota],
        shared: bool | None = None,
        rules: PoolRules | None = None,
    ) -> PoolRecord:
        """Create or change a pool; what is not given stays unchanged."""
        ...

    async def remove_pool(self, caller: Caller, name: str) -> None:
        """Remove a pool without jobs."""
        ...

    async def limits(self, caller: Caller) -> list[LimitRecord]:
        """List the limits of users: all for an administrator, otherwise the caller's."""
        ...

    async def set_limits(
        self, caller: Caller, user: str, given: Mapping[str, int | None] | None
    ) -> LimitRecord:
        """Change a user's limits ("*": everybody's); None: back to everybody's."""
        ...

    async def usage(
        self, caller: Caller, since: float, until: float | None = None, by: Sequence[str] = ("user",)
    ) -> UsageReport:
        """Return what jobs held, in whole hours, by what they have in common."""
        ...

    async def subscriptions(self, caller: Caller) -> list[SubscriptionRecord]:
        """Return who is told what: the caller's, for an administrator everybody's."""
        ...

    async def subscribe(
        self, caller: Caller, name: str, subscription: SubscriptionRecord
    ) -> SubscriptionRecord:
        """Add or replace a subscription of the caller."""
        ...

    async def unsubscribe(self, caller: Caller, name: str) -> None:
        """Remove a subscription of the caller."""
        ...

    async def try_subscription(self, caller: Caller, name: str) -> TrialRecord:
        """Tell a subscriber of something that did not happen."""
        ...

    async def notify_secret(self, caller: Caller) -> str:
        """Return what the caller's notices are signed with."""
        ...

    async def acts(
        self, caller: Caller, user: str | None = None, since: float = 0.0, limit: int = 100
    ) -> list[ActRecord]:
        """List the last entries of the audit log, oldest first."""
        ...

    async def failed_login(self, address: str, problem: str) -> None:
        """Log an attempt to log in that failed."""
        ...

    async def policy(self, caller: Caller) -> PolicyRecord:
        """Return the active policy."""
        ...

    async def set_policy(self, caller: Caller, name: str) -> PolicyRecord:
        """Change the policy, from the next cycle on."""
        ...

    async def tokens(self, caller: Caller) -> list[TokenRecord]:
        """List tokens without secrets: all for an administrator, otherwise the caller's."""
        ...

    async def create_token(self, caller: Caller, name: str, user: str, role: str) -> TokenRecord:
        """Create a token; only this answer has its secret."""
        ...

    async def revoke_token(self, caller: Caller, name: str) -> None:
        """Revoke a token of a user, or a join token, at once."""
        ...

    async def rotate_token(self, caller: Caller, name: str) -> TokenRecord:
        """Give a token another secret; only this answer has it."""
        ...

    async def invitations(self, caller: Caller) -> list[InvitationRecord]:
        """List join tokens of agents without secrets; for an administrator only."""
        ...

    async def invite(
        self, caller: Caller, node: str, uses: int = 1, seconds: float = 3600.0
    ) -> InvitationRecord:
        """Create a join token, for one node if it is named; only this answer has its text."""
        ...

    async def defrag(self, caller: Caller) -> list[DefragRecord]:
        """List the waiting jobs that moves of others would make room for; nothing is moved."""
        ...

    async def make_room(self, caller: Caller, which: str) -> DefragRecord:
        """Move what makes room for a waiting job, and keep it for that job."""
        ...

    async def remove_node(self, caller: Caller, node: str) -> None:
        """Drop a lost node, which will not come back."""
        ...

    async def revoke_node(self, caller: Caller, node: str) -> IdentityRecord:
        """Refuse a node's agent from now on; its tasks are lost."""
        ...

    async def rotate(self, caller: Caller, what: str, at_once: bool = False) -> RotationRecord:
        """Replace the secret behind jobs' tokens ("jobs") or the certificate authority ("authority").
        `at_once`: no longer accept the old authority; all agents have to join again."""
        ...

    async def identify(self, secret: str) -> Caller | None:
        """Return the caller of a token, or None."""
        ...

    async def prove(self, prefix: str, nonce: str, port: int) -> str:
        """Prove to who connected to a port that the token whose digest begins so is known here."""
        ...

    async def status(self) -> StatusRecord:
        """Return the daemon's status, which tells of jobs only their number."""
        ...

    async def snapshot(self, caller: Caller) -> bytes:
        """Return what the scheduler decides on now, as a file for `muster play`."""
        ...

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        ...
