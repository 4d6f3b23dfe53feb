"""A sweep: one command with many values of its parameters, submitted as one.

The journal has the template and the axes; a member's job follows from them and its position.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from muster.model.job import Dependency, Job, SweepPlace
from muster.model.placeholders import filled

INDEX = "index"
"""The parameter of an array; every sweep has it as a placeholder."""

HELD = "its sweep"
"""Who holds a member that pauses at a rung: no user is called so."""

_BITS = 53
"""Of a draw: what a float holds."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter and its values: a list, whole numbers, or a range to draw from."""

    name: str
    values: tuple[str, ...] = ()
    """Empty: from `low` to `high`."""
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    """Whether the range has whole numbers only."""
    log: bool = False
    """Whether draws are even over the logarithm."""

    @property
    def count(self) -> int:
        """How many values it has; 0: without number."""
        if self.values:
            return len(self.values)
        return int(self.high) - int(self.low) + 1 if self.whole and not self.log else 0

    def at(self, place: int) -> str:
        """Return one of its values."""
        return self.values[place] if self.values else str(int(self.low) + place)

    def drawn(self, part: float) -> str:
        """Return the value at a part of it, from 0 to below 1."""
        if self.count:
            return self.at(int(part * self.count))
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = low + part * (high - low)
        value = math.exp(value) if self.log else value
        return str(round(value)) if self.whole else f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class Asha:
    """When losers are stopped: asynchronous successive halving (Li et al., MLSys 2020).

    A member stops at rung k, after `rung` * `eta`^k epochs, until its metric is among the best 1/`eta`
    of those that have come so far.
    """

    metric: str = "loss"
    largest: bool = False
    """Whether more is better."""
    rung: int = 1
    """Epochs to the first rung."""
    eta: int = 3

    def epochs(self, rung: int) -> int:
        """Return the epochs to a rung, from 0."""
        return int(self.rung * self.eta**rung)

    def better_first(self, value: float | None) -> float:
        """Return what sorts values, the best first; None, a metric that is no number, last."""
        if value is None:
            return math.inf
        return -value if self.largest else value


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a user submits: a job with placeholders, and the values to put there."""

    number: int
    """From the same row as jobs' numbers; its members have those that follow."""
    template: Job
    axes: tuple[Axis, ...]
    samples: int = 0
    """Members to draw; 0: every combination."""
    seed: int = 0
    """Of the draws."""
    at_most: int = 0
    """Members with tasks at once; 0: as many as get devices."""
    asha: Asha | None = None

    @property
    def name(self) -> str:
        return self.template.name

    @property
    def user(self) -> str:
        return self.template.user

    @property
    def awaited(self) -> tuple[Dependency, ...]:
        """What must end before any member enters the queue."""
        return tuple(each for each in self.template.after if not each.met)

    @property
    def size(self) -> int:
        """How many members it has."""
        return self.samples or math.prod(axis.count for axis in self.axes)

    @property
    def is_array(self) -> bool:
        """Whether its members are called by their index."""
        return [axis.name for axis in self.axes] == [INDEX] and not self.samples

    def params(self, position: int) -> dict[str, str]:
        """Return a member's values by name."""
        if self.samples:
            return {axis.name: axis.drawn(self._draw(position, axis.name)) for axis in self.axes}
        found = {}
        for axis in reversed(self.axes):
            position, place = divmod(position, axis.count)
            found[axis.name] = axis.at(place)
        return {axis.name: found[axis.name] for axis in self.axes}

    def _draw(self, position: int, name: str) -> float:
        # By hash and not by a generator: any member's values follow without those before it.
        seen = hashlib.sha256(f"{self.seed}/{position}/{name}".encode()).digest()
        return float(int.from_bytes(seen[:8]) >> (64 - _BITS)) / float(2**_BITS)

    def label(self, position: int) -> str:
        """Return what a member is called within the sweep."""
        return self.axes[0].at(position) if self.is_array else str(position)

    def member_name(self, position: int) -> str:
        """Return the name of a member's job."""
        return f"{self.name}.{self.label(position)}"

    def position_of(self, label: str) -> int | None:
        """Return the position of the member called so."""
        return next((place for place in range(self.size) if self.label(place) == label), None)

    def job_number(self, position: int) -> int:
        """Return the number of a member's job."""
        return self.number + 1 + position

    def place_of(self, number: int) -> int | None:
        """Return the position of the member whose job has this number; None: not a member."""
        place = number - self.number - 1
        return place if 0 <= place < self.size else None


def member_job(sweep: Sweep, position: int) -> Job:
    """Return the job of one member: the template with its values, and a place of its own."""
    template, label, params = sweep.template, sweep.label(position), sweep.params(position)
    values = {INDEX: label, **params}
    program = template.program
    environ = tuple((name, filled(text, values)) for name, text in program.environ)
    return replace(
        template,
        name=sweep.member_name(position),
        number=sweep.job_number(position),
        command=tuple(filled(word, values) for word in template.command),
        program=replace(program, environ=environ, checkpoint=_checkpoint(sweep, values)),
        sweep=SweepPlace(sweep.number, sweep.name, label, sweep.size, tuple(params.items())),
        after=(),
    )


def _checkpoint(sweep: Sweep, values: Mapping[str, str]) -> str:
    """Return where a member's checkpoints go: never where another's do."""
    shared = sweep.template.program.checkpoint
    own = filled(shared, values)
    return f"{own.rstrip('/')}/{sweep.name}.{values[INDEX]}" if shared and own == shared else own


@dataclass(frozen=True, slots=True)
class SweepSubmitted:
    """A user submitted a sweep."""

    sweep: Sweep
    at: float


@dataclass(frozen=True, slots=True)
class MemberSubmitted:
    """A member of a sweep entered the queue: its job follows from the sweep."""

    job: int
    sweep: int
    at: float


@dataclass(frozen=True, slots=True)
class RungReached:
    """A member has trained for the epochs of a rung."""

    job: int
    sweep: int
    rung: int
    value: float | None
    """Of the metric; None: it was no number."""
    at: float


@dataclass(frozen=True, slots=True)
class MemberPromoted:
    """A member is among the best of its rung, and goes on to the next."""

    job: int
    sweep: int
    rung: int
    at: float


@dataclass(frozen=True, slots=True)
class SweepResized:
    """A user changed how many members may have tasks at once; 0: any number."""

    sweep: int
    at_most: int
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class SweepStopped:
    """A user stopped a sweep: no further member enters the queue."""

    sweep: int
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class SweepDependencyMet:
    """A job or sweep that this sweep comes after has ended as it must."""

    sweep: int
    parent: int
    at: float


@dataclass(frozen=True, slots=True)
class SweepSkipped:
    """No member will run: what the sweep comes after ended otherwise."""

    sweep: int
    parent: int
    at: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class SweepEnded:
    """All members of a sweep are over."""

    sweep: int
    at: float


SweepFact = (
    SweepSubmitted
    | MemberSubmitted
    | RungReached
    | MemberPromoted
    | SweepResized
    | SweepStopped
    | SweepDependencyMet
    | SweepSkipped
    | SweepEnded
)


def texts_of(job: Job) -> Iterable[tuple[str, str]]:
    """Yield the texts of a template that may have placeholders, each with its field."""
    yield from (("command", word) for word in job.command)
    yield from (("env", text) for _, text in job.program.environ)
    yield ("checkpoint", job.program.checkpoint)
