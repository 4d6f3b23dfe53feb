"""Records of nodes: their devices, health, links and tasks."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """How a node is, as its agent said; `AgentAlive.health` has these keys. None: unknown."""

    temperature: float | None = None
    """Of its hottest device, in degrees Celsius."""
    slowdown: float | None = None
    """The temperature at which that device slows itself down."""
    ecc: int = 0
    """Uncorrected memory errors of its devices since their driver was loaded."""
    xids: tuple[int, ...] = ()
    """Numbers of the errors (Xid) that the driver has reported since the agent started."""
    throttled: str = ""
    """Why the clocks of a device are lowered; empty: they are not."""
    disk_free: int | None = None
    """Bytes, where the agent has its folder."""
    memory_free: int | None = None
    """Bytes."""
    load: float | None = None
    """Processes that run or want to, over the last minute."""
    age: float = 0.0
    """s since the agent said so."""
    shares: bool | None = None
    """Whether it sees the daemon's file system."""
    busy: tuple[float | None, ...] = ()
    """Of each device the part of the last moments in which it computed, 0 to 1."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node."""

    name: str
    state: str
    """"up", "draining" or "lost"."""
    device_type: str
    devices: int
    free: int
    cores: float
    memory: int
    jobs: tuple[str, ...] = ()
    bitmap: str = ""
    """One letter per device: "." free, "x" in use."""
    until: float | None = None
    """When a draining node must be empty; None: whenever its jobs have ended."""
    leaving: tuple["LeavingRecord", ...] = ()
    """What becomes of the jobs on a draining node; for administrators."""
    engine: str = ""
    """Who brought the node: "machines", "ray", "slurm"; empty: the daemon's own machine."""
    address: str = ""
    """Where other nodes reach it."""
    why: str = ""
    """Why it is draining or lost."""
    since: float | None = None
    """When it came into its state; None: unknown."""
    rack: str = ""
    domain: str = ""
    configuration: str = ""
    """Name of its configuration set."""
    labels: dict[str, str] = field(default_factory=dict)
    connected: bool | None = None
    """Whether its agent is connected; None: it needs none."""
    health: NodeHealth | None = None
    """As its agent last said; None: it says nothing."""
    trouble: str = ""
    """What is wrong with its health; empty: nothing."""
    interface: str = ""
    """Network interface of the address; empty: unknown."""
    ports: tuple[int, int] | None = None
    """First and last port at which its tasks may listen."""
    user: str = ""
    """Whom its tasks run as; empty: their submitters."""
    virtual: bool = False
    """Whether its devices are made of CPU cores."""
    tasks: tuple["NodeTaskRecord", ...] = ()
    """Tasks that run on it, of jobs that the reader may see; only where one node is asked for."""
    uplink: "UplinkRecord | None" = None
    """Its link to the network; None: said by a daemon of an older version."""


@dataclass(frozen=True, slots=True)
class UplinkRecord:
    """A node's link: what the cluster file or its agent claims, and what transfers have shown."""

    claimed: float
    """Bytes/s."""
    learnt: float | None = None
    """Bytes/s believed now; None: nothing was measured."""
    reports: int = 0
    """Latest measurements it rests on."""
    at: float | None = None
    """When the last of them came."""
    odd: bool = False
    """Whether it differs from others of its kind: jobs over several nodes are laid out by it."""


@dataclass(frozen=True, slots=True)
class NodeTaskRecord:
    """A task on a node."""

    number: int
    """Of its job."""
    job: str
    task: str
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LeavingRecord:
    """A job on a draining node, and how it leaves."""

    number: int
    name: str
    how: str
    """"ends": stays until it ends; "moves": is moved live; "restarts": continues elsewhere from its
    checkpoint; "starts over": has no checkpoint. With no room elsewhere now, "stays": until there is
    some or it ends; "queues": is checkpointed and goes back to the queue."""
    at: float | None = None
    """When it is expected to end, or has to leave; None: unknown."""
    lost: float | None = None
    """Seconds of work that would be lost."""
