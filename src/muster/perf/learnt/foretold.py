"""What a model's shape, the devices' data sheets and the links foretell of its steps."""

from math import hypot, log

from muster.model.cluster import Cluster
from muster.model.job import Role
from muster.model.profile import ModelProfile
from muster.model.topology import ConfigurationSet
from muster.perf.devices import made_of_cores
from muster.perf.estimate import Estimate, Unknown
from muster.perf.memory import most_samples
from muster.perf.predict import Knowledge, Predictor
from muster.perf.shape import Host, Seat, Shape
from muster.perf.speed.fitted import NORMAL_80
from muster.perf.speed.foresight import Foresight
from muster.perf.speed.step_form import RING_8

NODES = 4
"""Nodes of the ring that is priced: the form's unit is 8 devices on four."""
SHARED = log(1.5)
"""Standard deviation of the logarithm of a ring's time beyond that of its links: collectives reach a
part of what links are rated at, and networks have other users."""


class Foreteller:
    """Foretells steps on one cluster, with one state of knowledge; each model is worked out once."""

    def __init__(self, cluster: Cluster, knowledge: Knowledge | None = None) -> None:
        self.cluster, self.knowledge = cluster, knowledge
        self._predictor = Predictor(cluster, knowledge)
        self._known: dict[int, tuple[ModelProfile, dict[str, Foresight]]] = {}

    def of(self, model: ModelProfile) -> dict[str, Foresight]:
        """Return what is foretold of a model by device type, where something can be."""
        found = self._known.get(id(model))
        if found is None:
            found = self._known[id(model)] = model, self._by_type(model)
        return found[1]

    def _by_type(self, model: ModelProfile) -> dict[str, Foresight]:
        found: dict[str, Foresight] = {}
        for kind in self.cluster.configurations.values():
            if kind.devices and kind.device_type not in found:
                told = self._on(model, kind)
                if told is not None:
                    found[kind.device_type] = told
        return found

    def _on(self, model: ModelProfile, kind: ConfigurationSet) -> Foresight | None:
        line = self._predictor.line(model, kind.name)
        if isinstance(line, Unknown):
            return None
        inside = self._ring(model, _ring(kind, 1, kind.devices))
        across = self._ring(model, _ring(kind, NODES, min(2, kind.devices)))
        links = max((log(each.high / each.mean) for each in (inside, across) if each), default=0.0)
        return Foresight(
            line.fixed,
            line.per_sample,
            log(line.spread) / NORMAL_80,
            inside.mean if inside else None,
            across.mean if across else None,
            hypot(links / NORMAL_80, SHARED),
            most_samples(model, kind.device_memory, updates=True),
            # A core computes what it is counted with in products of large matrices; a training may
            # take a hundred times as long over small ones, or load, or sleep.
            rated=bool(line.measured) or not made_of_cores(kind),
        )

    def _ring(self, model: ModelProfile, shape: Shape) -> Estimate | None:
        """Return s of the gradients round a ring, as if of 8 devices; None: there is none to tell."""
        devices = sum(seat.bits.bit_count() for host in shape for seat in host.seats)
        seconds = self._predictor.ring(model, shape) if devices > 1 else None
        if seconds is None or isinstance(seconds, Unknown) or seconds.mean <= 0:
            return None
        unit = RING_8 / (2 * (devices - 1) / devices)
        return Estimate(seconds.mean * unit, seconds.low * unit, seconds.high * unit)


def _ring(kind: ConfigurationSet, nodes: int, each: int) -> Shape:
    """Return workers of one device on each of the first devices of some nodes."""
    return tuple(
        Host(kind.name, 0, 0, tuple(Seat(Role.WORKER, n * each + i, 1 << i) for i in range(each)))
        for n in range(nodes)
    )
