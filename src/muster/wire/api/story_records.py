"""What the API says of one job's story: what happened to it, what keeps it now, and what would help."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One thing that happened to a job, or several alike in a row."""

    at: float
    what: str
    """"submitted", "waited", "waits" (still), "started", "grew", "shrank", "moved", "preempted",
    "lost", "asked", "changed" (several in a row) or "ended"."""
    text: str
    seconds: float | None = None
    """How long it took, of a wait; how long the job ran in all, of its end."""
    code: str = ""
    """Why: a reason code of docs/reference/reasons.md; empty: nothing was decided."""
    served: int | None = None
    """The job that got the devices which this one gave up."""
    given: int = 0
    """How many those were."""
    cost: float | None = None
    """Device-seconds of work lost by it."""
    gain: float | None = None
    """Device-seconds of waiting expected to be saved by it."""
    speed: float | None = None
    """The job's expected speed after it over that before."""
    workers: int | None = None
    """That it had after it."""
    where: str = ""
    """Nodes and devices that it had after it."""
    times: int = 1
    """How many changes the line stands for."""


@dataclass(frozen=True, slots=True)
class AdviceRecord:
    """A change that would start a waiting job or enlarge a running one, tried by deciding again."""

    field: str
    """"workers" and "priority" of the job as it is; others ask for another submission (`again`)."""
    value: str
    workers: int
    """That it then gets."""
    devices: int
    at_once: bool
    """False: once others have made way."""
    again: bool = False
    command: str = ""
    """What does it; empty: a submission with this field."""


@dataclass(frozen=True, slots=True)
class JobStory:
    """A job from its submission to its end, or to now."""

    number: int
    name: str
    user: str
    status: str
    lines: tuple[StoryLine, ...]
    """Oldest first, a dozen at most unless all are asked for."""
    complete: bool = True
    """Whether the journal still has all of it; else it is told by what the job held when."""
    code: str = ""
    now: str = ""
    """Why a live job is as it is, in words."""
    rank: str = ""
    """What it competes with at this moment, in words; empty: it is over, or has all it asked for."""
    start: float | None = None
    finish: float | None = None
    """As predicted."""
    finish_low: float | None = None
    finish_high: float | None = None
    """The 80 % interval of the finish."""
    advice: tuple[AdviceRecord, ...] = ()
    """What would start it now, or enlarge it."""
    advised: bool = False
    """Whether that was looked for."""
