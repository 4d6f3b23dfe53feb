"""Who may be a node: join tokens, certificates, renewal and revocation.

A node has one valid certificate, and for a moment its last one: until the new one has been used, as the
agent may have died before it stored it. Calls block on the store, except `admitted` and `stale`.
Thread-safe.
"""

import re
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from cryptography import x509

from muster.executors.fleet.authority import (
    AGENT_DAYS,
    SERVER_DAYS,
    Authority,
    BadRequestError,
    Signed,
    key_of,
    node_of,
    serial_of,
    serving,
)
from muster.executors.fleet.join_error import JoinError
from muster.wire.agents.agent_messages import Admitted, Renewed
from muster.wire.agents.join_token import JoinToken
from muster.wire.agents.token_proof import digest
from muster.wire.api.records import IdentityRecord, InvitationRecord

AUTHORITY = "authority"
"""The setting with the authority, its private key included."""
MACHINES = "machines"
"""Engine of agents that are started by hand."""
NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
KEPT = 7 * 86400.0
"""s to keep an expired join token, to tell who used it."""
LONGEST_SECRET = 128
"""Characters; ours have 43."""
DAY = 86400.0


class IdentityStore(Protocol):
    """What is kept of agents; `Store` is one."""

    def setting(self, key: str) -> str | None: ...
    def set_setting(self, key: str, value: str) -> None: ...
    def add_invitation(self, digest: str, invitation: InvitationRecord) -> None: ...
    def invitation(self, digest: str) -> InvitationRecord | None: ...
    def invitations(self) -> list[InvitationRecord]: ...
    def drop_invitations(self, name: str | None = None, expired: float = 0.0) -> int: ...
    def admit(self, digest: str, identity: IdentityRecord) -> bool: ...
    def put_identity(self, identity: IdentityRecord) -> None: ...
    def identities(self) -> list[IdentityRecord]: ...


class Identities:
    """The nodes' certificates, and who may get one."""

    def __init__(
        self,
        store: IdentityStore,
        names: Sequence[str] = ("localhost",),
        addresses: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`names`: of this machine, for the daemon's certificate; `addresses`: "host:port" at which
        agents reach it."""
        self.names, self.addresses = tuple(names), tuple(addresses)
        self.revoked: list[Callable[[str], None]] = []
        """Called with each node whose certificates are refused from now on, to end its connection."""
        self._store, self._clock = store, clock
        self._lock = threading.RLock()
        known = store.setting(AUTHORITY)
        self._authority = Authority.new(clock()) if known is None else Authority.load(known)
        if known is None:
            store.set_setting(AUTHORITY, self._authority.dump())
        self._known = {each.node: each for each in store.identities()}
        self._serving: tuple[float, ssl.SSLContext] | None = None
        """The context for new connections, and when to make the next."""
        self._retire()

    # --- joining ---

    def invite(
        self,
        node: str | None = None,
        uses: int = 1,
        seconds: float = 3600.0,
        engine: str = MACHINES,
    ) -> JoinToken:
        """Return a new join token.

        One for a node lets this node join again, even if it has an identity; one of an engine lets all
        nodes of that engine do so, as engines start agents on the same nodes over and over.
        """
        if node:
            _check_node(node)
        secret, now = secrets.token_urlsafe(32), self._clock()
        mark, print_ = digest(secret), self._authority.fingerprint
        invitation = InvitationRecord(
            mark[:8], now, now + seconds, node or "", uses, engine=engine, authority=print_
        )
        self._store.drop_invitations(expired=now - KEPT)
        self._store.add_invitation(mark, invitation)
        return JoinToken(self.addresses, print_, secret, node or "", now + seconds)

    def invitations(self) -> list[InvitationRecord]:
        """Return all join tokens, oldest first, without secrets."""
        return self._store.invitations()

    def withdraw(self, name: str) -> bool:
        """Remove the join token of a name; return whether there was one."""
        with self._lock:
            found = self._store.drop_invitations(name) > 0
            self._retire()
            return found

    def join(self, token: str, node: str, request: str, address: str) -> Admitted:
        """Give a node its first certificate, for a join token's secret; `JoinError` if it may not.

        A node whose answer was lost may ask again with the same key.
        """
        with self._lock:
            _check_node(node)
            now = self._clock()
            mark = digest(token[:LONGEST_SECRET])
            invitation = self._store.invitation(mark)
            if invitation is None:
                raise JoinError("unknown join token; create one: muster token create --agent")
            try:
                again = self._is_again(invitation, node, key_of(request))
                self._check_invitation(invitation, node, now, again)
                signed = self._authority.sign_agent(request, node, now, AGENT_DAYS)
            except BadRequestError as problem:
                raise JoinError(str(problem)) from None
            identity = self._identity(node, signed)
            identity = replace(
                identity, engine=invitation.engine, invitation=invitation.name, address=address
            )
            if again:
                self._store.put_identity(identity)
            elif not self._store.admit(mark, identity):
                raise JoinError(_used(invitation))
            self._known[node] = identity
            return Admitted(signed.pem, self._authority.trusted)

    def _is_again(self, invitation: InvitationRecord, node: str, key: str) -> bool:
        """Whether this node joined with this token and key already."""
        known = self._known.get(node)
        if known is None or known.revoked is not None:
            return False
        return known.invitation == invitation.name and known.key == key

    def _check_invitation(
        self, invitation: InvitationRecord, node: str, now: float, again: bool
    ) -> None:
        if now > invitation.expires:
            raise JoinError(f"the join token expired on {moment(invitation.expires)}")
        if invitation.node not in ("", node):
            raise JoinError(f"the join token is for node {invitation.node}, not {node}")
        if again:
            return
        if invitation.used >= invitation.uses:
            raise JoinError(_used(invitation))
        known = self._known.get(node)
        if known is not None and known.authority in self._authority.accepted:
            self._check_replacing(invitation, known)

    def _check_replacing(self, invitation: InvitationRecord, known: IdentityRecord) -> None:
        """Refuse to take the place of another agent, unless an administrator said so."""
        node, by_hand = known.node, invitation.engine == MACHINES
        meant = by_hand and invitation.node == node
        hint = f"muster token create --agent --node {node}"
        if known.revoked is not None:
            if not meant or invitation.created < known.revoked:
                when = moment(known.revoked)
                raise JoinError(f"node {node} was revoked on {when}; to let it join again: {hint}")
        elif not meant and (by_hand or known.engine != invitation.engine):
            raise JoinError(f"a node named {node} has joined already; if this is the same one: {hint}")

    # --- connecting ---

    def admitted(self, certificate: bytes) -> str:
        """Return the node of a connecting agent's certificate (DER), whose chain TLS has verified;
        `JoinError` if it is not valid any more."""
        try:
            found = x509.load_der_x509_certificate(certificate)
            node, serial, end = node_of(found), serial_of(found), found.not_valid_after_utc.timestamp()
        except ValueError:
            raise JoinError("the agent's certificate cannot be read") from None
        with self._lock:
            known = self._known.get(node)
            if known is None:
                raise JoinError(f"node {node!r:.70} is unknown here; join with a new token")
            if known.revoked is not None:
                raise JoinError(f"node {node} was revoked on {moment(known.revoked)}")
            if serial not in (known.serial, known.previous):
                raise JoinError(
                    f"the certificate of {node} was replaced: another agent joined as {node}"
                )
            if self._clock() > end:
                raise JoinError(f"the certificate of {node} expired on {moment(end)}; join again")
            if serial == known.serial and known.previous:
                # In memory alone: at worst the last certificate is good for one more connection.
                self._known[node] = replace(known, previous="")
                self._retire()
            return node

    def renew(self, node: str, request: str) -> Renewed:
        """Give a connected node its next certificate; `JoinError` if it may not have one."""
        with self._lock:
            known = self._known.get(node)
            if known is None or known.revoked is not None:
                raise JoinError(f"node {node} has no valid certificate to renew")
            try:
                signed = self._authority.sign_agent(request, node, self._clock(), AGENT_DAYS)
            except BadRequestError as problem:
                raise JoinError(str(problem)) from None
            # The last one stays good until this one is used: the agent may die before it has it.
            fresh = replace(
                self._identity(node, signed),
                joined=known.joined,
                engine=known.engine,
                invitation=known.invitation,
                address=known.address,
                previous=known.serial,
            )
            self._store.put_identity(fresh)
            self._known[node] = fresh
            self._retire()
            return Renewed(signed.pem, self._authority.trusted)

    def stale(self, node: str) -> bool:
        """Whether a node's certificate is of an authority that is being replaced."""
        known = self._known.get(node)
        return known is not None and known.authority != self._authority.fingerprint

    def revoke(self, node: str) -> IdentityRecord:
        """Refuse a node's certificates from now on, and end its connection; `LookupError` if it has
        none. Idempotent."""
        with self._lock:
            known = self._known[node]
            if known.revoked is None:
                known = replace(known, revoked=self._clock())
                self._store.put_identity(known)
                self._known[node] = known
                self._retire()
        self._tell(node)
        return known

    def _tell(self, node: str) -> None:
        for tell in self.revoked:
            tell(node)

    def identities(self) -> list[IdentityRecord]:
        """Return the certificates of all agents, by node."""
        return sorted(self._known.values(), key=lambda each: each.node)

    def _identity(self, node: str, signed: Signed) -> IdentityRecord:
        print_ = self._authority.fingerprint
        return IdentityRecord(
            node,
            signed.serial,
            signed.key,
            signed.issued,
            signed.expires,
            joined=signed.issued,
            authority=print_,
        )

    # --- the authority ---

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the authority's certificate, in hex."""
        return self._authority.fingerprint

    def rotate(self, *, at_once: bool = False) -> tuple[str, ...]:
        """Replace the authority; return the nodes that still have to renew.

        `at_once`: no longer accept the old one: every agent has to join again.
        """
        with self._lock:
            now = self._clock()
            if at_once:
                self._set_authority(Authority.new(now))
                for node in self._known:
                    self._tell(node)
                return ()
            waiting = self._waiting()
            if self._authority.previous and waiting:
                raise JoinError(
                    f"the last rotation is not over: {', '.join(waiting[:5])} have not renewed; "
                    "revoke them, or rotate --at-once"
                )
            self._set_authority(self._authority.replaced(now))
            self._retire()
            return self._waiting()

    def context(self) -> ssl.SSLContext:
        """Return the context to listen for agents with; each connection gets the current certificate,
        and the authorities that are accepted at that moment."""
        outer = _server_context(self._authority, self.names, self._clock())

        def switch(sock: Any, _name: str | None, _context: ssl.SSLContext) -> None:
            sock.context = self._current()

        outer.sni_callback = switch
        return outer

    def _current(self) -> ssl.SSLContext:
        now = self._clock()
        with self._lock:
            if self._serving is None or now >= self._serving[0]:
                context = _server_context(self._authority, self.names, now)
                self._serving = now + SERVER_DAYS * DAY * 2 / 3, context
            return self._serving[1]

    def _set_authority(self, authority: Authority) -> None:
        self._store.set_setting(AUTHORITY, authority.dump())
        self._authority, self._serving = authority, None

    def _waiting(self) -> tuple[str, ...]:
        """The nodes with a valid certificate of the previous authority, or that have not shown their
        new one yet: an agent may die before it has it."""
        now, current = self._clock(), self._authority.fingerprint
        return tuple(
            each.node
            for each in self.identities()
            if each.revoked is None
            and each.expires > now
            and (each.authority != current or each.previous)
        )

    def _retire(self) -> None:
        """Drop the previous authority once nobody needs it: no agent, and no join token out there."""
        if not self._authority.previous or self._waiting():
            return
        now, current = self._clock(), self._authority.fingerprint
        if not any(
            each.authority != current and each.expires > now and each.used < each.uses
            for each in self._store.invitations()
        ):
            self._set_authority(self._authority.alone())


def moment(at: float) -> str:
    """Return a time as people read it, in the daemon's time zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _server_context(authority: Authority, names: Sequence[str], now: float) -> ssl.SSLContext:
    context = serving(*authority.sign_server(names, now))
    # Optional: an agent that joins has no certificate yet.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority.trusted)
    return context


def _check_node(node: str) -> None:
    if not NODE.fullmatch(node):
        raise JoinError(
            f"{node!r:.70} is not a name for a node: up to 63 letters, digits, '.', '_' and '-'"
        )


def _used(invitation: InvitationRecord) -> str:
    when = moment(invitation.used_at or 0.0)
    return f"the join token was used on {when} by {invitation.used_by}; create another one"
