"""Metrics of single nodes: how they are, as their agents say."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from muster.executors.health import unhealthy
from muster.perf.history.hops import NodeLink
from muster.wire.api.records import NodeHealth

Reading = Callable[[NodeHealth], float | None]

READINGS: dict[str, tuple[str, Reading]] = {
    "muster_node_healthy": (
        "Whether a node is well: 1, or 0 with the reason in `muster node list`",
        lambda health: 0.0 if unhealthy(health) else 1.0,
    ),
    "muster_node_temperature_celsius": (
        "Temperature of a node's hottest device",
        lambda health: health.temperature,
    ),
    "muster_node_ecc_errors": (
        "Uncorrected memory errors of a node's devices since their driver was loaded",
        lambda health: None if health.temperature is None else health.ecc,
    ),
    "muster_node_throttled": (
        "Whether a fault lowers the clock of a node's device",
        lambda health: None if health.temperature is None else float(bool(health.throttled)),
    ),
    "muster_node_disk_free_bytes": (
        "Free space where a node's agent has its folder",
        lambda health: health.disk_free,
    ),
    "muster_node_memory_free_bytes": ("Free memory of a node", lambda health: health.memory_free),
    "muster_node_load": ("Processes of a node that run or want to", lambda health: health.load),
}
"""What each gauge means, and where it is read; None: unknown, no sample."""


LINK = "muster_node_link_bytes_per_second"


class NodeGauges(Collector):
    """A gauge for each reading, a sample for each node whose agent is connected.

    Samples are made when somebody asks: thousands of nodes change far more often.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._agents: Mapping[str, NodeHealth] = {}
        self._links: Mapping[str, NodeLink] = {}
        registry.register(self)

    def set(self, agents: Mapping[str, NodeHealth], links: Mapping[str, NodeLink]) -> None:
        """Take what the agents say and links have shown; the other nodes have no samples."""
        self._agents, self._links = agents, links

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges, as the registry asks for them."""
        agents = self._agents
        for name, (means, read) in READINGS.items():
            gauge = GaugeMetricFamily(name, means, labels=["node"])
            for node, health in agents.items():
                value = read(health)
                if value is not None:
                    gauge.add_metric([node], value)
            yield gauge
        gauge = GaugeMetricFamily(LINK, "Bytes/s that a node's link has shown", labels=["node"])
        for node, link in self._links.items():
            gauge.add_metric([node], link.rate)
        yield gauge
