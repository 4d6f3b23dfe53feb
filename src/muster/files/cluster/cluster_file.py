"""Cluster files: nodes, links and pools. See docs/reference/files.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.files.cluster.cluster_entries import ClusterEntry, ConfigurationEntry
from muster.files.cluster.node_list import nodes_of
from muster.files.cluster.pool_tree import pools_of
from muster.files.errors import FieldError
from muster.files.source.quantity import name_at
from muster.files.source.tree import DEFAULT_LINKS, DEFAULT_NIC, layers_of, link_of
from muster.files.source.validation import schema_of, validated
from muster.files.source.yaml_source import Source, read_source
from muster.model.cluster import Cluster
from muster.model.pool import PoolTree
from muster.model.topology import DEFAULT_HOST, ConfigurationSet, Level

_NEEDS_DEVICES = (
    "generation",
    "device_memory",
    "device_rate",
    "device_bandwidth",
    "switches",
    "nvlink",
    "links",
)


@dataclass(frozen=True, slots=True)
class ClusterFile:
    cluster: Cluster
    pools: PoolTree


def load_cluster(path: Path) -> ClusterFile:
    """Load the cluster and the pools of a file; InputError is one line."""
    source = read_source(path)
    entry = validated(ClusterEntry, source)
    try:
        cluster = _cluster(entry, path, source)
        return ClusterFile(cluster, pools_of(entry.pools, cluster))
    except FieldError as error:
        raise source.error(error.loc, error.problem) from None


def cluster_schema() -> dict[str, Any]:
    return schema_of(ClusterEntry, "Muster cluster file")


def _cluster(entry: ClusterEntry, path: Path, source: Source) -> Cluster:
    configurations = _configurations(entry.configurations)
    network = entry.network
    links = {Level.RACK: network.rack, Level.DOMAIN: network.domain, Level.CLUSTER: network.cluster}
    return Cluster(
        name=entry.name or name_at(("name",), path.stem),
        configurations=configurations,
        nodes=nodes_of(entry.nodes, configurations, source),
        links={level: link_of(link, DEFAULT_LINKS[level]) for level, link in links.items()},
    )


def _configurations(entries: Mapping[str, ConfigurationEntry]) -> dict[str, ConfigurationSet]:
    if not entries:
        raise FieldError(("configurations",), "must name at least one configuration")
    found = {}
    for name, entry in entries.items():
        name_at(("configurations", name), name)
        try:
            found[name] = configuration_of(name, entry)
        except FieldError as error:
            raise error.below("configurations", name) from None
    return found


def configuration_of(name: str, entry: ConfigurationEntry) -> ConfigurationSet:
    """Return the configuration set of an entry; FieldError where fields conflict."""
    _refuse_half_described(entry)
    device_type = entry.device or ""
    return ConfigurationSet(
        name=name,
        device_type=device_type,
        generation=entry.generation or device_type,
        devices=entry.devices,
        device_memory=entry.device_memory,
        layers=layers_of(entry) if entry.devices else (),
        millicores=entry.cores,
        memory=entry.memory,
        nic=link_of(entry.nic, DEFAULT_NIC),
        host=link_of(entry.host, DEFAULT_HOST),
        device_rate=entry.device_rate,
        device_bandwidth=entry.device_bandwidth,
    )


def _refuse_half_described(entry: ConfigurationEntry) -> None:
    """Refuse a device type without a count, and device fields without devices."""
    if entry.devices and entry.device is None:
        raise FieldError(("device",), "is missing; write for example P100")
    if entry.device is not None and not entry.devices:
        if "devices" in entry.model_fields_set:
            raise FieldError(("devices",), "must be at least 1 with a device type")
        raise FieldError(("devices",), "is missing; write for example 8")
    if not entry.devices:
        for field in _NEEDS_DEVICES:
            if field in entry.model_fields_set:
                raise FieldError((field,), "needs a node with devices")
