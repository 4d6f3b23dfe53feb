"""Cluster files: nodes, links and pools. See docs/reference/files.md."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.files.cluster.classify import Classifier
from muster.files.cluster.cluster_entries import ClusterEntry
from muster.files.cluster.configurations import configurations_of
from muster.files.cluster.node_list import nodes_of
from muster.files.cluster.pool_tree import pools_of
from muster.files.cluster.rules import rules_of
from muster.files.errors import FieldError, InputError
from muster.files.source.quantity import name_at
from muster.files.source.tree import DEFAULT_LINKS, link_of
from muster.files.source.validation import missing, schema_of, validated
from muster.files.source.yaml_source import Source, read_source
from muster.model.cluster import Cluster
from muster.model.pool import PoolTree
from muster.model.topology import Level


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """A cluster with its pools, and what nodes that join it count as."""

    cluster: Cluster
    pools: PoolTree
    classifier: Classifier = field(default_factory=Classifier)
    planners: int = 1
    """Planners that decide beside each other, each for its own pools."""


def load_cluster(path: Path) -> ClusterFile:
    """Load the cluster and the pools of a file; InputError is one line."""
    source = read_source(path)
    entry = validated(ClusterEntry, source)
    try:
        cluster = _cluster(entry, path, source)
        pools, classifier = pools_of(entry.pools, cluster), _classifier(entry, cluster)
        return ClusterFile(cluster, pools, classifier, entry.planners)
    except FieldError as error:
        raise source.error(error.loc, error.problem) from None


def load_listed(path: Path) -> ClusterFile:
    """Load a file that must list nodes: rules alone say nothing of which nodes there are."""
    found = load_cluster(path)
    if not found.cluster.nodes:
        raise InputError.at(
            str(path),
            "lists no nodes; add nodes, or bring nodes to its rules with muster up --engine",
        )
    return found


def cluster_schema() -> dict[str, Any]:
    return schema_of(ClusterEntry, "Muster cluster file")


def _cluster(entry: ClusterEntry, path: Path, source: Source) -> Cluster:
    _refuse_missing(entry)
    configurations = {} if entry.configurations is None else configurations_of(entry.configurations)
    network = entry.network
    links = {Level.RACK: network.rack, Level.DOMAIN: network.domain, Level.CLUSTER: network.cluster}
    return Cluster(
        name=entry.name or name_at(("name",), path.stem),
        configurations=configurations,
        nodes=() if entry.nodes is None else nodes_of(entry.nodes, configurations, source),
        links={level: link_of(link, DEFAULT_LINKS[level]) for level, link in links.items()},
        open=entry.rules is not None,
    )


def _refuse_missing(entry: ClusterEntry) -> None:
    if entry.rules is not None and entry.nodes is None:
        return
    for name in ("nodes", "configurations"):
        if getattr(entry, name) is None:
            raise FieldError((name,), missing(ClusterEntry.model_fields[name]))


def _classifier(entry: ClusterEntry, cluster: Cluster) -> Classifier:
    kinds = cluster.configurations
    return Classifier(
        rules=() if entry.rules is None else rules_of(entry.rules, kinds),
        listed={node.name: node for node in cluster.nodes},
        configurations=kinds,
        closed=not cluster.open,
    )
