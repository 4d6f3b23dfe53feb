"""Records of who may do what, and who did: tokens, agents, the audit log."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token; its secret is shown only when it is created."""

    name: str
    user: str
    role: str
    """"admin" or "user"."""
    created: float
    used: float | None = None
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class InvitationRecord:
    """A join token of agents; its text is shown only when it is created."""

    name: str
    """The beginning of its secret's digest."""
    created: float
    expires: float
    node: str = ""
    """The only node that may join with it; empty: any new one."""
    uses: int = 1
    """How many nodes may join with it."""
    used: int = 0
    used_by: str = ""
    """The last node that joined with it."""
    used_at: float | None = None
    engine: str = "machines"
    """Whose agents it is for."""
    authority: str = ""
    """Fingerprint of the authority that its text names."""
    token: str | None = None
    command: str | None = None
    """What to type on the other machine."""


@dataclass(frozen=True, slots=True)
class IdentityRecord:
    """The certificate of a node's agent."""

    node: str
    serial: str
    """Of its certificate, in hex."""
    key: str
    """SHA-256 of its public key."""
    issued: float
    expires: float
    joined: float
    engine: str = "machines"
    """Whose token it joined with."""
    previous: str = ""
    """Serial of the certificate before, good until the new one is used."""
    authority: str = ""
    """Fingerprint of the authority that signed it."""
    invitation: str = ""
    """Name of the token it joined with."""
    address: str = ""
    """Where it joined or last connected from."""
    revoked: float | None = None


@dataclass(frozen=True, slots=True)
class RotationRecord:
    """A secret that was replaced."""

    what: str
    """"jobs" or "authority"."""
    waiting: tuple[str, ...] = ()
    """Who still uses the old one: live jobs until they end, nodes until they have renewed."""


@dataclass(frozen=True, slots=True)
class ActRecord:
    """An entry of the audit log: who did what, when and from where."""

    at: float
    user: str
    act: str
    """Such as "submit", "stop" or "set pool"."""
    target: str = ""
    """What it was done to: a job, a node, a pool, a token."""
    outcome: str = "done"
    """"done" or "refused"."""
    detail: str = ""
    """What was asked for, or why it was refused."""
    address: str = ""
    """Where the request came from: an address, or the Unix user at the daemon's socket."""
