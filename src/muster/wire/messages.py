"""Messages between a coordinator (launcher or daemon) and the tasks of a job: frozen, JSON on the wire.

Every message that orders or reports a change carries the formation it belongs to; what is older is
ignored. A field may be added with a default; anything else is a new `VERSION`.
"""

from dataclasses import dataclass
from typing import Any

VERSION = 2

ROLES = ("worker", "server")


@dataclass(frozen=True, slots=True)
class Member:
    """One task of a formation: its name, role ("worker" or "server"), and where its peers reach it."""

    task: str
    role: str
    address: str
    """host:port of its post."""
    bandwidth: float = 0.0
    """Bytes/s of its link, each way; 0 where nobody has measured it."""
    device: str = ""
    """"cpu" or the name of its GPU; the same for two tasks only if they share it."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """The members that a job shall have next. Their order is the order of the ranks, workers first."""

    formation: int
    after: int
    """The formation it changes; members that have moved on ignore it."""
    members: tuple[Member, ...]
    deadline: float = 30.0
    """Seconds after which a member that has not answered counts as gone."""
    sync: str = "auto"
    """"auto", "ring", "sharded" or "dedicated"."""
    owners: str = "reduce"
    """What owners of parameters do: "reduce" only, or "update" as well."""
    batch: tuple[int, ...] = ()
    """Samples of each worker to begin with; empty: as many each."""
    balance: bool = True
    """Shares of the batch follow the workers' speeds; else they stay as they begin."""


@dataclass(frozen=True, slots=True)
class CheckpointNow:
    """Write a checkpoint at the next step."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the training after this step, with a checkpoint where there is a place for one."""

    reason: str = ""
    leave: bool = False
    """The processes end with it: what a script does after its training is for another time."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a task on every connection."""

    job: str
    task: str
    role: str
    address: str
    pid: int
    token: str = ""
    formation: int = 0
    """The formation it is a member of; 0: of none yet."""
    ready: bool = False
    """It has said `Ready`, perhaps to a coordinator that is no more."""
    device: str = ""
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Received:
    """The coordinator has dealt with so many messages of this connection, the `Hello` not counted."""

    count: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The task has built its model, has warmed up and waits for a plan that names it."""

    task: str


@dataclass(frozen=True, slots=True)
class Captured:
    """The shape of the training (see `runtime/shape/capture.py`), sent once by the first worker."""

    task: str
    shape: dict[str, Any]
    steps: int = 0
    """Steps that the training does in all; 0: not known."""
    batch: int = 0
    """Samples of one step over all workers; 0: not known."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """One committed step as one worker saw it; times in seconds."""

    task: str
    formation: int
    step: int
    epoch: int
    samples: int
    """This worker's share."""
    loss: float
    """Mean over the global batch."""
    forward: float
    backward: float
    wait: float
    """From the end of the backward pass to the last sum: what synchronisation did not hide."""
    sync: float
    """From the first bucket handed over to the last sum."""
    seconds: float = 0.0
    """From the end of the step before to that of this one; 0: the first of a formation."""
    holds: bool = True
    """The task has the whole state; a joiner that is still being sent it has not."""


@dataclass(frozen=True, slots=True)
class Transferred:
    """One transfer: over which link, bytes, seconds."""

    task: str
    formation: int
    link: str
    """"ring" for a collective, else the name of the other task."""
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Changed:
    """The members changed: what they are now, since which step, and how long training stood still."""

    task: str
    formation: int
    step: int
    members: tuple[str, ...]
    pause: float
    cause: str
    """"start", "plan" or "failure"."""
    lost: tuple[str, ...] = ()
    """Tasks that were found gone."""
    sync: str = ""
    """How gradients are synchronised now, in words."""


@dataclass(frozen=True, slots=True)
class Straggling:
    """A worker that is slow even with a small share of the batch: worth replacing."""

    task: str
    straggler: str
    formation: int
    step: int
    factor: float
    """Its seconds per sample over the others' median."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint is on disk."""

    task: str
    step: int
    path: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The user's code or input is at fault: the job cannot go on anywhere."""

    task: str
    error: str
    """One line."""
    trace: str = ""


@dataclass(frozen=True, slots=True)
class TrainingEnded:
    """The task is done: its training is finished ("finished"), it left ("left"), or all were told to go
    ("stopped")."""

    task: str
    formation: int
    step: int
    how: str


Message = (
    MemberPlan
    | CheckpointNow
    | Stop
    | Received
    | Hello
    | Ready
    | Captured
    | StepDone
    | Transferred
    | Changed
    | Straggling
    | Saved
    | Failed
    | TrainingEnded
)
