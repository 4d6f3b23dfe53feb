"""Messages between the daemon and the agent of a node, as JSON lines over mutual TLS.

The agent dials, says `AgentHello` with the tasks it has, and is answered with `Welcome` or
`AgentRefused`. From then on the daemon sends orders and the agent reports; a report is resent on the
next connection until it is acknowledged. Times are ages, in s by the sender's own clock: the clocks of
nodes differ. A new field needs a default; any other change needs a new `AGENT_VERSION`.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

from muster.wire.bounds import AtMost
from muster.wire.visits.visits import Visit

AGENT_VERSION = 1

AGENT_LINE = 512 * 2**10
"""Bytes of the longest line of an agent: a greeting with 4,096 tasks of 64 characters."""

DAEMON_LINE = 4 * 2**20
"""Bytes of the longest line of a daemon: an order with the arguments and variables that Linux takes."""

FIRST_LINE = 64 * 2**10
"""Bytes of the first line of a connection without a certificate: a token and a request for one."""

Name = Annotated[str, AtMost(255)]
"""Of a node, a task, a run, or a hash."""
Path = Annotated[str, AtMost(4096)]
Sentence = Annotated[str, AtMost(2000)]
Pem = Annotated[str, AtMost(32_768)]
"""A certificate, with the authorities it may come with, or a request for one."""
Data = Annotated[str, AtMost(384 * 2**10)]
"""Base64: 288 KiB."""
Facts = Annotated[dict[str, Any], AtMost(4096)]
"""A few values by name: of an offer, a report, the health of 64 devices."""
OrderFields = Annotated[dict[str, Any], AtMost(65_536)]
Tasks = Annotated[tuple[Name, ...], AtMost(4096)]
"""More than a node runs at a time by far."""


# --- from the agent ---


@dataclass(frozen=True, slots=True)
class Join:
    """The only message of an agent without a certificate: a one-time token and a request for one."""

    token: Annotated[str, AtMost(4096)]
    node: Name
    request: Pem
    """A certificate signing request, PEM."""
    version: int = AGENT_VERSION


@dataclass(frozen=True, slots=True)
class AgentHello:
    """The first message of an agent on each connection."""

    node: Name
    run: Name
    """Differs between two agents of one node, and stays the same over one's reconnections."""
    epoch: int
    """The highest epoch of a daemon that it has obeyed."""
    offer: Facts
    """A `NodeOffer`."""
    tasks: Tasks = ()
    """Tasks that it has and that have not ended, as `TaskId` prints them. Reports that were not
    acknowledged follow; of a task that is in neither it knows nothing: `AttachTasks` asks."""
    release: Name = ""
    """Version of Muster."""
    version: int = AGENT_VERSION
    visits: bool = False
    """Whether it understands `OpenVisit`: older ones do not."""


@dataclass(frozen=True, slots=True)
class VisitHello:
    """The first message of an agent on a connection that `OpenVisit` asked for; then come the
    frames of the visit."""

    key: Name


@dataclass(frozen=True, slots=True)
class AgentAlive:
    """Sent every beat; also says how the node is."""

    health: Facts = field(default_factory=dict)
    """See `agent/node/health.py`; empty: as before."""
    beat: int = 0
    """Counts the beats of a connection, from 1."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """A task started or exited. Resent until acknowledged."""

    seq: int
    """Counts the reports of one `run`."""
    age: float
    """s since it happened."""
    what: Name
    """"started" or "exited"."""
    task: Name
    report: Facts
    """The other fields of `TaskStarted` or `TaskExited`, without times."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Bytes of a log, sent while its task runs; the daemon's copy outlives the node."""

    log: Path
    offset: int
    """Where they begin; counts all bytes ever written."""
    data: Data
    """Base64."""


@dataclass(frozen=True, slots=True)
class NeedPack:
    """The node has an order whose packed folder it does not have; it asks for part after part."""

    digest: Name
    offset: int = 0


@dataclass(frozen=True, slots=True)
class RenewCertificate:
    """A request for a new certificate, before the old one expires."""

    request: Pem


@dataclass(frozen=True, slots=True)
class Departing:
    """The node will be gone: a signal of its engine, or of its administrator."""

    within: float
    why: Sentence


# --- from the daemon ---


@dataclass(frozen=True, slots=True)
class Admitted:
    """Answers `Join`: the agent's identity."""

    certificate: Pem
    """PEM."""
    authority: Pem
    """PEM of the CA; of two while one replaces the other."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """Answers `RenewCertificate`."""

    certificate: Pem
    authority: Pem


@dataclass(frozen=True, slots=True)
class Welcome:
    """Answers `AgentHello`. An agent refuses a daemon of an older epoch than it has obeyed."""

    epoch: int
    beat: float
    """s between two `AgentAlive`."""
    lost_after: float
    """s of silence after which the daemon gives the node's tasks up."""
    share: Annotated[str, AtMost(8192)] = ""
    """Path and content of a file of the daemon's, as "path\\ncontent": an agent that can read it says
    so in `AgentAlive`; then both see the same file system."""
    reported: int = 0
    """The last report of this `run` that the daemon has."""
    logs: OrderFields = field(default_factory=dict)
    """Bytes of each log of the agent's tasks that the daemon has."""


@dataclass(frozen=True, slots=True)
class AgentRefused:
    """The daemon will not have the agent; the connection ends."""

    why: Sentence
    final: bool = True
    """Whether trying again is of no use."""


@dataclass(frozen=True, slots=True)
class DaemonAlive:
    """Sent every beat."""

    epoch: int
    beat: int = 0
    """The last `AgentAlive` heard on this connection: leases count from when the agent sent it, so a
    message that was long under way prolongs none."""
    renew: bool = False
    """Whether the agent's certificate is of an authority that is being replaced: it renews at once."""


@dataclass(frozen=True, slots=True)
class RunTask:
    """Run a task; idempotent."""

    epoch: int
    task: Name
    order: OrderFields
    """The other fields of a `TaskOrder`, without its node."""


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Send a signal to a task's process group."""

    epoch: int
    task: Name
    number: int


@dataclass(frozen=True, slots=True)
class AttachTasks:
    """Report what became of these tasks."""

    epoch: int
    tasks: Tasks


@dataclass(frozen=True, slots=True)
class OpenVisit:
    """Connect a visitor to a task: on a connection of its own, which holds up nothing else."""

    epoch: int
    key: Name
    """What `VisitHello` names."""
    task: Name
    visit: Visit


@dataclass(frozen=True, slots=True)
class ReportStored:
    """The daemon has all reports up to this one."""

    seq: int


@dataclass(frozen=True, slots=True)
class LogStored:
    """The daemon has this log up to an offset; 0 with `full` if it wants no more of it."""

    log: Path
    offset: int
    full: bool = False


@dataclass(frozen=True, slots=True)
class PackPart:
    """A part of a packed folder that the agent asked for."""

    digest: Name
    offset: int
    data: Data
    """Base64."""
    last: bool = False
    problem: Sentence = ""


@dataclass(frozen=True, slots=True)
class PruneTasks:
    """Delete files of jobs without live tasks and without activity for `age` s."""

    epoch: int
    age: float


@dataclass(frozen=True, slots=True)
class Retire:
    """The node is no longer wanted: end the agent once it has no task."""

    epoch: int
    why: Sentence


FromAgent = (
    Join
    | AgentHello
    | VisitHello
    | AgentAlive
    | AgentReport
    | LogPart
    | NeedPack
    | RenewCertificate
    | Departing
)
ToAgent = (
    Admitted
    | Renewed
    | Welcome
    | AgentRefused
    | DaemonAlive
    | RunTask
    | SendSignal
    | AttachTasks
    | OpenVisit
    | ReportStored
    | LogStored
    | PackPart
    | PruneTasks
    | Retire
)
AgentMessage = FromAgent | ToAgent
