"""The level a placement spans, to compare with a locality contract."""

from muster.model.cluster import Cluster, span
from muster.model.placement import Placement
from muster.model.topology import Level


def spanned(cluster: Cluster, placement: Placement) -> Level:
    """Return the narrowest level that holds every task; tasks without devices count by node."""
    nodes = placement.nodes()
    if len(nodes) > 1:
        return span(cluster, nodes)
    (name,) = nodes
    return cluster.configuration_of(cluster.node(name)).level_of(placement.bits()[name])
