"""Cluster files: what is there, and which pools share it. See docs/reference/files.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.files.cluster.cluster_entries import ClusterEntry, ConfigurationEntry, NetworkEntry
from muster.files.cluster.node_list import nodes_of
from muster.files.cluster.pool_tree import pools_of
from muster.files.errors import FieldError, Loc
from muster.files.source.quantity import parse_name
from muster.files.source.tree import DEFAULT_LINKS, DEFAULT_NIC, layers_of, link_of
from muster.files.source.validation import schema_of, validated
from muster.files.source.yaml_source import Source, read_source
from muster.model.cluster import Cluster
from muster.model.pool import PoolTree
from muster.model.topology import DEFAULT_HOST, ConfigurationSet, Level, Link

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
    """What a cluster file describes."""

    cluster: Cluster
    pools: PoolTree


def load_cluster(path: Path) -> ClusterFile:
    """The cluster and the pools of a file; raises InputError, one line, for anything wrong."""
    source = read_source(path)
    entry = validated(ClusterEntry, source)
    try:
        cluster = _cluster(entry, path, source)
        return ClusterFile(cluster, pools_of(entry.pools, cluster))
    except FieldError as error:
        raise source.error(error.loc, error.problem) from None


def cluster_schema() -> dict[str, Any]:
    """The JSON Schema of cluster files."""
    return schema_of(ClusterEntry, "Muster cluster file")


def _cluster(entry: ClusterEntry, path: Path, source: Source) -> Cluster:
    configurations = _configurations(entry.configurations)
    return Cluster(
        name=entry.name or _named(path.stem, ("name",)),
        configurations=configurations,
        nodes=nodes_of(entry.nodes, configurations, source),
        links=_network(entry.network),
    )


def _configurations(entries: Mapping[str, ConfigurationEntry]) -> dict[str, ConfigurationSet]:
    if not entries:
        raise FieldError(("configurations",), "names no configuration")
    found = {}
    for name, entry in entries.items():
        _named(name, ("configurations", name))
        try:
            found[name] = configuration_of(name, entry)
        except FieldError as error:
            raise error.below("configurations", name) from None
    return found


def configuration_of(name: str, entry: ConfigurationEntry) -> ConfigurationSet:
    """The configuration set as written; `FieldError` where its fields contradict each other."""
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
    """Device type and count belong together, and so does what only nodes with devices have."""
    if entry.devices and entry.device is None:
        raise FieldError(("device",), "is missing; write for example P100")
    if entry.device is not None and not entry.devices:
        if "devices" in entry.model_fields_set:
            raise FieldError(("devices",), "must be at least 1 where a device type is given")
        raise FieldError(("devices",), "is missing; write for example 8")
    if not entry.devices:
        for field in _NEEDS_DEVICES:
            if field in entry.model_fields_set:
                raise FieldError((field,), "is given for a node without devices")


def _network(entry: NetworkEntry) -> dict[Level, Link]:
    written = {Level.RACK: entry.rack, Level.DOMAIN: entry.domain, Level.CLUSTER: entry.cluster}
    return {level: link_of(link, DEFAULT_LINKS[level]) for level, link in written.items()}


def _named(text: str, loc: Loc) -> str:
    try:
        return parse_name(text)
    except ValueError as error:
        raise FieldError(loc, str(error)) from None
