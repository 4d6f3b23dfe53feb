"""Clusters of nodes like Xiao's P100 server: eight devices, two sockets, two switches under each."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from muster.files.cluster.cluster_file import load_cluster
from muster.model.cluster import Cluster, Node
from muster.model.topology import ConfigurationSet

PATTERN = Path(__file__).parents[2] / "examples/clusters/xiao-p100.yaml"


def cluster_of(name: str, nodes: Mapping[str, int], per_rack: int = 4) -> Cluster:
    """This many nodes of each device type, racks filled in order; types differ in nothing but name."""
    pattern = load_cluster(PATTERN).cluster
    kind = next(iter(pattern.configurations.values()))
    types = [device_type for device_type, count in nodes.items() for _ in range(count)]
    return Cluster(
        name,
        {each: replace(kind, name=each, device_type=each, generation=each) for each in nodes},
        tuple(_node(kind, each, i, f"r{i // per_rack}") for i, each in enumerate(types)),
        pattern.links,
    )


def _node(kind: ConfigurationSet, device_type: str, number: int, rack: str) -> Node:
    every = (1 << kind.devices) - 1
    return Node(f"n{number:02}", device_type, rack, "ib0", every, kind.millicores, kind.memory)
