"""Requests about secrets: tokens of users, join tokens and certificates of agents, and rotation."""

import contextlib
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from muster.daemon.loop.loop import Daemon
from muster.daemon.service.governing.audit import audited
from muster.daemon.service.governing.notify_requests import NotifyRequests
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from muster.daemon.service.requests import admins_only
from muster.daemon.tasks.job_secrets import JobSecrets
from muster.executors.accounts import TOGETHER, Submitters
from muster.executors.fleet.join_error import JoinError
from muster.store.errors import StoreError
from muster.wire.agents.token_proof import digest, proof
from muster.wire.api.records import IdentityRecord, InvitationRecord, RotationRecord, TokenRecord

if TYPE_CHECKING:
    # Cryptography is slow to load, and only a daemon with agents needs it.
    from muster.executors.fleet.identities import Identities

SECRET = "secret"
"""The setting with the secret behind jobs' tokens."""
ROLES = ("admin", "user")
USED = 60.0
"""s between two records of a token's use."""
NO_AGENTS = "this daemon runs tasks on its own machine only; for more start it with --engine machines"


class TrustRequests(NotifyRequests):
    """Who may use the daemon, and who may be a node; documented in the protocol."""

    def __init__(self, daemon: Daemon, submitters: Submitters = TOGETHER) -> None:
        super().__init__(daemon)
        self._submitters = submitters
        self._no_token = secrets.token_hex(32)
        """Proves tokens that do not exist, so that nobody can tell which do."""
        self.identities: Identities | None = None
        """Of agents; None: there are none."""
        self.job_secrets: JobSecrets | None = None

    # --- users ---

    async def tokens(self, caller: Caller) -> list[TokenRecord]:
        found = await self._read(self._store.tokens)
        return [each for each in found if caller.admin or each.user == caller.user]

    @audited("create token")
    async def create_token(self, caller: Caller, name: str, user: str, role: str) -> TokenRecord:
        admins_only(caller)
        if role not in ROLES:
            raise RefusedError(f"no role named {role!r}; roles: {', '.join(ROLES)}")
        if role == "user":  # an administrator need not run jobs
            await self._read(self._refuse_without_account, user)
        if any(each.name == name for each in await self._read(self._store.tokens)):
            raise ConflictError(
                f"a token named {name!r} exists; revoke it first, or choose another name"
            )
        secret, created = secrets.token_urlsafe(32), self._daemon.clock.now()
        await self._read(self._store.add_token, name, user, role, digest(secret), created)
        return TokenRecord(name, user, role, created, secret=secret)

    def _refuse_without_account(self, user: str) -> None:
        """Refuse a user who could run no job: jobs run as their submitters, and it has no account."""
        problem = self._submitters.without_account(user)
        if problem:
            raise RefusedError(f"{problem}; create the account first")

    @audited("revoke token")
    async def revoke_token(self, caller: Caller, name: str) -> None:
        if name in [each.name for each in await self.tokens(caller)]:
            await self._read(self._store.revoke_token, name)
            return
        agents = self.identities if caller.admin else None
        if agents is None or not await self._read(agents.withdraw, name):
            raise NotFoundError(f"you have no token named {name!r}; see: muster token list")

    @audited("rotate token")
    async def rotate_token(self, caller: Caller, name: str) -> TokenRecord:
        found = {each.name: each for each in await self.tokens(caller)}.get(name)
        if found is None:
            raise NotFoundError(f"you have no token named {name!r}; see: muster token list")
        secret = secrets.token_urlsafe(32)
        await self._read(self._store.rotate_token, name, digest(secret))
        return replace(found, used=None, secret=secret)

    async def identify(self, secret: str) -> Caller | None:
        known = digest(secret)
        found = await self._read(self._store.token, known)
        if found is None:
            return None
        now = self._daemon.clock.now()
        if found.used is None or now > found.used + USED:
            with contextlib.suppress(UnavailableError):  # a full disk must not lock callers out
                await self._read(self._store.touch_token, known, now)
        return Caller(found.user, found.role == "admin")

    async def prove(self, prefix: str, nonce: str, port: int) -> str:
        known = await self._read(self._store.token_digest, prefix)
        return proof(known or self._no_token, nonce, port)

    # --- agents ---

    async def invitations(self, caller: Caller) -> list[InvitationRecord]:
        if not caller.admin or self.identities is None:
            return []
        return await self._read(self.identities.invitations)

    @audited("create join token")
    async def invite(
        self, caller: Caller, node: str, uses: int = 1, seconds: float = 3600.0
    ) -> InvitationRecord:
        admins_only(caller)
        identities = self._agents()
        try:
            token = await self._read(identities.invite, node, uses, seconds)
        except JoinError as error:
            raise RefusedError(str(error)) from None
        name = digest(token.secret)[:8]
        found = {each.name: each for each in await self._read(identities.invitations)}[name]
        return replace(found, token=str(token), command=f"muster agent --join {token}")

    @audited("revoke node")
    async def revoke_node(self, caller: Caller, node: str) -> IdentityRecord:
        admins_only(caller)
        try:
            return await self._read(self._agents().revoke, node)
        except LookupError:
            raise NotFoundError(f"no agent has joined as {node!r}; see: muster node list") from None

    def _agents(self) -> "Identities":
        if self.identities is None:
            raise RefusedError(NO_AGENTS)
        return self.identities

    # --- the daemon's own secrets ---

    @audited("rotate")
    async def rotate(self, caller: Caller, what: str, at_once: bool = False) -> RotationRecord:
        admins_only(caller)
        if what == "jobs":
            return self._rotate_jobs()
        try:
            waiting = await self._read(lambda: self._agents().rotate(at_once=at_once))
        except JoinError as error:
            raise ConflictError(str(error)) from None
        return RotationRecord(what, waiting)

    def _rotate_jobs(self) -> RotationRecord:
        assert self.job_secrets is not None
        state = self._daemon.state
        live = [(state.view.jobs[number], gang) for number, gang in state.gangs.items() if gang.tasks]
        before = self.job_secrets.dump()
        self.job_secrets.rotate(live)
        try:
            # In the loop's thread: a run that began before the new secret is stored would be lost
            # with a daemon that dies in between.
            self._store.set_setting(SECRET, self.job_secrets.dump())
        except StoreError as error:
            self.job_secrets.restore(before)
            raise UnavailableError(str(error)) from None
        return RotationRecord("jobs", tuple(f"{job.number} ({job.job.full_name})" for job, _ in live))
