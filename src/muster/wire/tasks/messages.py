"""Messages between a coordinator (launcher or daemon) and the tasks of a job, as JSON.

Messages that order or report a change carry its formation; older ones are ignored. A new field needs a
default; any other change needs a new `VERSION`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

VERSION = 3

ROLES = ("worker", "server")

Loss = Annotated[float, "any"]
"""May be NaN, infinite or negative. Other numbers are counts, times and rates: finite, 0 or more."""


@dataclass(frozen=True, slots=True)
class Member:
    """One task of a formation: its name, role ("worker" or "server") and address."""

    task: str
    role: str
    address: str
    """host:port for its peers."""
    bandwidth: float = 0.0
    """Bytes/s of its link, each way; 0: unknown."""
    device: str = ""
    """"cpu" or the name of its GPU; the same for two tasks only if they share it."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """The next members of a job, by rank, workers first."""

    formation: int
    after: int
    """The formation it changes; members of a later one ignore it."""
    members: tuple[Member, ...]
    deadline: float = 30.0
    """Seconds after which a silent member counts as lost."""
    sync: str = "auto"
    """"auto", "ring", "sharded" or "dedicated"."""
    owners: str = "reduce"
    """What owners of parameters do: "reduce" only, or also "update"."""
    batch: tuple[int, ...] = ()
    """Initial samples of each worker; empty: equal."""
    balance: bool = True
    """Whether shares of the batch follow the workers' speeds."""
    shares: tuple[float, ...] = ()
    """Parts of the parameters by rank (sum 1), as decided for these members; empty: from the links."""
    leader: str = ""
    """The survivor that made it after a failure; empty: the coordinator made it."""


@dataclass(frozen=True, slots=True)
class MembersLost:
    """These tasks are lost, and never come back: their processes have ended, or their node is given up.

    Sockets do not tell of a cut link, nor a GPU of a peer that died; the others need not wait for them.
    """

    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckpointNow:
    """Write a checkpoint at the next step."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the training after this step, with a checkpoint if there is a folder for it."""

    reason: str = ""
    leave: bool = False
    """End the processes as well, without what the script does after its training."""


@dataclass(frozen=True, slots=True)
class UseBatch:
    """Change the global batch after the next step, if the training allows one of this size."""

    batch: int
    order: int
    """Later orders have higher numbers; from 1."""


@dataclass(frozen=True, slots=True)
class UseEnding:
    """End the training by this from the next epoch on, whatever its script says; empty: not by its
    loss."""

    until: str
    """As `ending.parse_ending` reads it."""
    order: int
    """Later orders have higher numbers; from 1."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The first message of a task on each connection: who it is, and a nonce (hex)."""

    job: str
    task: str
    nonce: str
    user: str = ""
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Challenge:
    """The coordinator's nonce, and its proof that it knows the job's token (hex)."""

    nonce: str
    proof: str


@dataclass(frozen=True, slots=True)
class Proof:
    """The task's proof that it knows the job's token (hex)."""

    proof: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the coordinator does not speak with this task."""

    why: str


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a task once both ends are proved."""

    job: str
    task: str
    role: str
    address: str
    pid: int
    formation: int = 0
    """The formation it is a member of; 0: none yet."""
    ready: bool = False
    """Whether it has sent `Ready`, perhaps to an earlier coordinator."""
    device: str = ""


@dataclass(frozen=True, slots=True)
class Received:
    """The number of messages handled on this connection, without the `Hello`."""

    count: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The task has built its model, is warmed up and waits for a plan."""

    task: str


@dataclass(frozen=True, slots=True)
class Captured:
    """The shape of the training (see `runtime/shape/capture.py`), sent once by the first worker."""

    task: str
    shape: dict[str, Any]
    steps: int = 0
    """Steps of the whole training; 0: unknown."""
    batch: int = 0
    """Samples of one step over all workers; 0: unknown."""
    largest: int = 0
    """The most that a step may have, if the batch is free; 0: it stays as it is."""
    until: str = ""
    """What ends it, if that is its loss: an ending as `ending.parse_ending` reads it, or words."""
    most: int = 0
    """Steps after which it ends whatever its loss; 0: none."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """One committed step as one worker saw it; times in seconds."""

    task: str
    formation: int
    step: int
    epoch: int
    samples: int
    """This worker's share."""
    loss: Loss
    """Mean over the global batch."""
    forward: float
    backward: float
    wait: float
    """From the end of the backward pass to the last sum: synchronisation not hidden by computing."""
    sync: float
    """From handing over the first bucket to the last sum."""
    seconds: float = 0.0
    """From the end of the previous step to the end of this one; 0: the first of a formation."""
    holds: bool = True
    """Whether the task has the whole state; a joiner that still receives it has not."""
    batch: int = 0
    """Samples of the step over all workers; 0: unknown."""
    noise: float | None = None
    """The gradient's noise scale in samples, if the batch is free and it is known."""
    done: float = 0.0
    """Steps of the user's own batch that the training has done, if the batch is free; else 0."""


@dataclass(frozen=True, slots=True)
class Transferred:
    """Bytes sent to another host in a step, and the seconds they were under way."""

    task: str
    formation: int
    link: str
    """A task on the other host; "ring", of a collective, by tasks of older versions."""
    bytes: int
    """0: only small messages, which tell the latency alone."""
    seconds: float
    latency: float = 0.0
    """Seconds one way; 0: by tasks of older versions, whose `seconds` include waiting for peers."""
    beside: int = 0
    """By tasks of older versions: bytes to further hosts."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The new members, since which step, and how long training paused."""

    task: str
    formation: int
    step: int
    members: tuple[str, ...]
    pause: float
    cause: str
    """"start", "plan" or "failure"."""
    lost: tuple[str, ...] = ()
    """Tasks found lost."""
    sync: str = ""
    """How gradients are synchronised, for people."""
    way: str = ""
    """The same as a word: "ring", "nccl", "sharded", "dedicated" or "none"; empty: another way."""
    shares: tuple[float, ...] = ()
    """Parts of the parameters by rank; empty: nobody owns any."""


@dataclass(frozen=True, slots=True)
class MembersSilent:
    """Members do not answer: dead, or cut off. The others continue once this is acknowledged, so that
    of two halves of a network only one does."""

    task: str
    silent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskBusy:
    """A worker does something long between two steps, or has done it: the others wait for it."""

    task: str
    busy: bool


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
class Report:
    """Metrics of the user's own, on a connection of their own: sent in place of a `Hello`."""

    task: str
    metrics: Mapping[str, Loss]
    epoch: int = 0
    """Epochs done; 0: one more than at the last report."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The user's code or input is at fault: the job fails, unless only a newcomer does."""

    task: str
    error: str
    """One line."""
    trace: str = ""
    joining: bool = False
    """Whether the task has not done a step of its own yet."""


@dataclass(frozen=True, slots=True)
class TrainingEnded:
    """The task is done: "finished" its training, "left" the others, or was "stopped"."""

    task: str
    formation: int
    step: int
    how: str


Message = (
    MemberPlan
    | MembersLost
    | CheckpointNow
    | Stop
    | UseBatch
    | UseEnding
    | Received
    | Hello
    | Ready
    | Captured
    | StepDone
    | Transferred
    | Changed
    | MembersSilent
    | TaskBusy
    | Straggling
    | Saved
    | Report
    | Failed
    | TrainingEnded
    | Opening
    | Challenge
    | Proof
    | Refused
)
