"""Messages between the daemon and the agent of a node, as JSON lines over mutual TLS.

The agent dials, says `Hello` with the tasks it has, and is answered with `Welcome` or `AgentRefused`.
From then on the daemon sends orders and the agent reports; a report is resent on the next connection
until it is acknowledged. Times are ages, in s by the sender's own clock: clocks of nodes differ. A new
field needs a default; any other change needs a new `AGENT_VERSION`.
"""

from dataclasses import dataclass, field
from typing import Any

AGENT_VERSION = 1


# --- from the agent ---


@dataclass(frozen=True, slots=True)
class Join:
    """The only message of an agent without a certificate: a one-time token and a request for one."""

    token: str
    node: str
    request: str
    """A certificate signing request, PEM."""
    version: int = AGENT_VERSION


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of an agent on each connection."""

    node: str
    run: str
    """Differs between two agents of one node, and stays the same over one's reconnections."""
    epoch: int
    """The highest epoch of a daemon that it has obeyed."""
    offer: dict[str, Any]
    """A `NodeOffer`."""
    tasks: tuple[str, ...] = ()
    """Tasks that it has and that have not ended, as `TaskId` prints them."""
    release: str = ""
    """Version of Muster."""
    version: int = AGENT_VERSION


@dataclass(frozen=True, slots=True)
class AgentAlive:
    """Sent every beat; also says how the node is."""

    health: dict[str, Any] = field(default_factory=dict)
    """See `agent/health.py`; empty: as before."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """A task started or exited. Resent until acknowledged."""

    seq: int
    """Counts the reports of one `run`."""
    age: float
    """s since it happened."""
    kind: str
    """"started" or "exited"."""
    task: str
    report: dict[str, Any]
    """The other fields of `TaskStarted` or `TaskExited`, without times."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Bytes of a log, sent while its task runs; the daemon's copy outlives the node."""

    log: str
    offset: int
    """Where they begin; counts all bytes ever written."""
    data: str
    """Base64."""


@dataclass(frozen=True, slots=True)
class NeedPack:
    """The node has an order whose packed folder it does not have."""

    digest: str


@dataclass(frozen=True, slots=True)
class RenewCertificate:
    """A request for a new certificate, before the old one expires."""

    request: str


@dataclass(frozen=True, slots=True)
class Departing:
    """The node will be gone: a signal of its engine, or of its administrator."""

    within: float
    why: str


# --- from the daemon ---


@dataclass(frozen=True, slots=True)
class Admitted:
    """Answers `Join`: the agent's identity."""

    certificate: str
    """PEM."""
    authority: str
    """PEM of the CA; of two while one replaces the other."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """Answers `RenewCertificate`."""

    certificate: str
    authority: str


@dataclass(frozen=True, slots=True)
class Welcome:
    """Answers `Hello`. An agent refuses a daemon of an older epoch than it has obeyed."""

    epoch: int
    beat: float
    """s between two `AgentAlive`."""
    lost_after: float
    """s of silence after which the daemon gives the node's tasks up."""
    share: str = ""
    """Path and content of a file of the daemon's, as "path\\ncontent": an agent that can read it says
    so in `AgentAlive`; then both see the same file system."""
    reported: int = 0
    """The last report of this `run` that the daemon has."""
    logs: dict[str, Any] = field(default_factory=dict)
    """Bytes of each log of the agent's tasks that the daemon has."""


@dataclass(frozen=True, slots=True)
class AgentRefused:
    """The daemon will not have the agent; the connection ends."""

    why: str
    final: bool = True
    """Whether trying again is of no use."""


@dataclass(frozen=True, slots=True)
class DaemonAlive:
    """Sent every beat."""

    epoch: int
    renew: bool = False
    """Whether the agent's certificate is of an authority that is being replaced: it renews at once."""


@dataclass(frozen=True, slots=True)
class RunTask:
    """Run a task; idempotent."""

    epoch: int
    task: str
    order: dict[str, Any]
    """The other fields of a `TaskOrder`, without its node."""


@dataclass(frozen=True, slots=True)
class SignalTask:
    """Send a signal to a task's process group."""

    epoch: int
    task: str
    number: int


@dataclass(frozen=True, slots=True)
class AttachTasks:
    """Report what became of these tasks."""

    epoch: int
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportStored:
    """The daemon has all reports up to this one."""

    seq: int


@dataclass(frozen=True, slots=True)
class LogStored:
    """The daemon has this log up to an offset; 0 with `full` if it wants no more of it."""

    log: str
    offset: int
    full: bool = False


@dataclass(frozen=True, slots=True)
class PackPart:
    """A part of a packed folder that the agent asked for."""

    digest: str
    offset: int
    data: str
    """Base64."""
    last: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PruneTasks:
    """Delete files of jobs without live tasks and without activity for `age` s."""

    epoch: int
    age: float


@dataclass(frozen=True, slots=True)
class Retire:
    """The node is no longer wanted: end the agent once it has no task."""

    epoch: int
    why: str


FromAgent = Join | Hello | AgentAlive | AgentReport | LogPart | NeedPack | RenewCertificate | Departing
ToAgent = (
    Admitted
    | Renewed
    | Welcome
    | AgentRefused
    | DaemonAlive
    | RunTask
    | SignalTask
    | AttachTasks
    | ReportStored
    | LogStored
    | PackPart
    | PruneTasks
    | Retire
)
AgentMessage = FromAgent | ToAgent
