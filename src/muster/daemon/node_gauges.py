"""Metrics of single nodes: how they are, as their agents say."""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Gauge

from muster.executors.health import unhealthy
from muster.wire.records import NodeHealth

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


class NodeGauges:
    """A gauge for each reading, a sample for each node whose agent is connected."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauges = {
            name: Gauge(name, means, ["node"], registry=registry)
            for name, (means, _) in READINGS.items()
        }

    def set(self, agents: Mapping[str, NodeHealth]) -> None:
        """Set the gauges; nodes without an agent have no samples."""
        for name, (_, read) in READINGS.items():
            gauge = self._gauges[name]
            gauge.clear()
            for node, health in agents.items():
                value = read(health)
                if value is not None:
                    gauge.labels(node).set(value)
