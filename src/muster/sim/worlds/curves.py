"""Optimus' world: jobs with parameter servers whose speed and loss follow its two curves exactly.

Source: Peng et al., Optimus (EuroSys 2018), sections 3.1 and 3.2; seed 004. p servers, w workers:

    synchronous    T = t0 M/w + t1 + t2 w/p + t3 w + t4 p       M samples in each step of all workers
    asynchronous   T = (t0 + t1 w/p + t2 w + t3 p) / w          m samples in each step of any worker
    loss           l(k) = 1 / (b0 k + b1) + b2                  after k epochs

Work is counted in epochs, one unit for all jobs and batches: rate = batch / (samples · T) [epochs/s].
`terms_of` derives t from a model's size, its operations and the links; the nine job types are in
`optimus_types.py`.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from muster.model.outlook import Outlook
from muster.model.profile import LayerType
from muster.perf.devices import LAUNCH, REACHED, DeviceRate, rate_of_cores
from muster.perf.epochs.convergence import Target
from muster.perf.epochs.loss_curve import LossCurve
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.sim.truth import Ideal, JobPace, ideal_of

PATIENCE = 10
"""Epochs that must each lower the loss by less than the threshold: Optimus' published code."""
MOST_EPOCHS = 100
"""Where its code gives up."""
PARAMETER_BYTES = 4
"""Single precision."""
MESSAGE = 1e-4
"""Latency in s of a message on gigabit Ethernet: the usual 50 µs of wire and switch, and as much in the
two kernels."""
MESSAGES = 4
"""On each connection in a step: push, its answer, pull, its answer."""
UPDATE_PASSES = 3
"""Times a server's memory moves a byte of gradients: read it, read the parameter, write it."""


class CurveKind(StrEnum):
    """Whether workers wait for each other."""

    SYNCHRONOUS = "synchronous"
    ASYNCHRONOUS = "asynchronous"


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What of a model determines its step."""

    parameters: float
    tensors: int
    operations: float
    """Of one sample's forward pass, a multiplication and its addition counted as two."""
    layer: LayerType
    """The layer type of most operations."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """A worker's rate, a server's cores, and bytes/s between two tasks."""

    worker: DeviceRate
    server_cores: float
    link: float


@dataclass(frozen=True, slots=True)
class CurveSpeed:
    """Optimus' speed curve in epochs/s, by workers and servers."""

    kind: CurveKind
    terms: tuple[float, ...]
    """Seconds, in the order of the formula."""
    batch_size: int
    """M of a synchronous job, m of an asynchronous one."""
    samples: float

    def step(self, workers: int, servers: int = 0) -> float:
        """Return s between two steps; by default with as many servers as workers."""
        return sum(self._parts(workers, servers))

    def synchronising(self, workers: int, servers: int = 0) -> float:
        """Return the part of a step that is not computing, s."""
        return sum(self._parts(workers, servers)[1 if self.kind is CurveKind.ASYNCHRONOUS else 2 :])

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        return self.gain / self.step(workers, servers) if workers >= 1 else 0.0

    def batch(self, device_type: str, workers: int) -> int | None:
        return None

    @property
    def gain(self) -> float:
        """Epochs of one step."""
        return self.batch_size / self.samples

    def _parts(self, workers: int, servers: int) -> tuple[float, ...]:
        """Return the terms of the formula; by default with w servers."""
        t, w, p = self.terms, workers, servers or workers
        if self.kind is CurveKind.ASYNCHRONOUS:
            return (t[0] / w, t[1] / p, t[2], t[3] * p / w)
        return (t[0] * self.batch_size / w, t[1], t[2] * w / p, t[3] * w, t[4] * p)


@dataclass(frozen=True, slots=True)
class Curves:
    """A job that follows the curves until it has converged."""

    work: float
    """Epochs."""
    speed: CurveSpeed
    curve: LossCurve
    target: Target | None = None
    """What ends it, so that its losses tell what is left; None: they do not."""

    def pace(self, crew: Held, done: float) -> JobPace:
        return JobPace(self.speed.rate(crew.device_type, crew.workers, crew.servers))

    def shown(self, crew: Held, done: float) -> StepReport:
        if crew.workers < 1:
            return StepReport(inf)
        step = self.speed.step(crew.workers, crew.servers)
        return StepReport(step, self.speed.synchronising(crew.workers, crew.servers), self.speed.gain)

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        """With the best number of servers, up to twice as many as workers."""
        return ideal_of(
            {
                workers: self.work
                / max(self.speed.rate(device_type, workers, p) for p in range(1, 2 * workers + 1))
                for workers in range(fewest, most + 1)
            }
        )

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        here = None if crew is None else self.pace(crew, done).rate
        return Outlook(max(0.0, self.work - done), self.speed, here=here)


def falling(b0: float, b2: float) -> LossCurve:
    """Return the loss curve of these terms that begins at 1, so that b1 = 1 / (1 - b2)."""
    return LossCurve(b0, 1 / (1 - b2), b2, scale=1.0, since=0.0)


def epochs_until_converged(curve: LossCurve, threshold: float) -> float:
    """Return the epochs until `PATIENCE` in a row have each gained less than the threshold."""
    return min(max(curve.slow_from(threshold), 1.0) + PATIENCE - 1, MOST_EPOCHS)


def terms_of(kind: CurveKind, size: ModelSize, site: Hardware, batch: int) -> tuple[float, ...]:
    """Return the curve's t, s, for S bytes of gradients, B bytes/s of a link, U of a server's memory.

    computing      3 operations / rate per sample (forward and backward passes, see perf.compute),
                   and the kernel launches of every tensor
    w/p            each of w workers sends S/p to a server and fetches as much: 2S/B; the server adds
                   it to its parameters: 3S/U
    w and p        messages on each connection, whatever their size
    """
    each = 3 * size.operations / (site.worker.single * REACHED[size.layer])
    launches = LAUNCH * size.tensors
    gradients = size.parameters * PARAMETER_BYTES
    memory = rate_of_cores(site.server_cores).memory
    shared = 2 * gradients / site.link + UPDATE_PASSES * gradients / memory
    connection = MESSAGES * MESSAGE
    if kind is CurveKind.ASYNCHRONOUS:
        return (each * batch + launches, shared, connection, connection)
    return (each, launches, shared, connection, connection)
