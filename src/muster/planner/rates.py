"""Bandwidths of cards, ports, uplinks and rings inside a node, as the planner uses them."""

from muster.model.choice import choice_table
from muster.model.job import Role
from muster.perf.costs import price
from muster.perf.history.links import LinkEstimate
from muster.perf.predict import Predictor
from muster.perf.rings import ranks_of, ring
from muster.perf.shape import Host, Seat
from muster.perf.wires import LinkClass, Wire


class Rates:
    """A predictor's links, cached."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self.wiring = predictor.wiring
        self._bandwidths: dict[LinkClass, float] = {}
        self._rings: dict[tuple[str, int], float] = {}

    def card(self, configuration: str) -> float:
        """Return bytes/s of the network card of a configuration set's nodes."""
        return self._bandwidth(LinkClass(Wire.NIC, configuration))

    def port(self, configuration: str) -> float:
        """Return bytes/s of one process on a configuration set's nodes."""
        return self._bandwidth(LinkClass(Wire.HOST, configuration))

    def uplink(self) -> float:
        """Return bytes/s of a rack's uplink."""
        return self._bandwidth(LinkClass(Wire.RACK))

    def inside(self, configuration: str, devices: int) -> float:
        """Return the least s/byte of a ring over devices of one node."""
        key = (configuration, devices)
        if key not in self._rings:
            self._rings[key] = self._ring_inside(configuration, devices) if devices > 1 else 0.0
        return self._rings[key]

    def _ring_inside(self, configuration: str, devices: int) -> float:
        """Assume that the node is free and take the closest devices."""
        kind = self._predictor.cluster.configurations[configuration]
        choice = choice_table(kind.layers, kind.devices).pack(kind.all_devices, devices)
        host = Host(configuration, 0, 0, (Seat(Role.WORKER, 0, choice.bits if choice else 0),))
        stage = ring(ranks_of((host,)), (host,), self.wiring)
        return price([stage], lambda place: self._bandwidth(place[0])).per_byte

    def _bandwidth(self, link: LinkClass) -> float:
        """Return bytes/s of a class of links; next to nothing without one, which pricing reports."""
        if link not in self._bandwidths:
            known = self._predictor.link(link)
            self._bandwidths[link] = known.bandwidth.mean if isinstance(known, LinkEstimate) else 1.0
        return self._bandwidths[link]
