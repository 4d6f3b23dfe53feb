"""Whether any node can run a job's container."""

from muster.executors.containers import engines_here
from muster.model.cluster import Cluster, Node
from muster.model.job import Job


def container_problem(job: Job, cluster: Cluster) -> str:
    """Return why no node can run the job's container; empty if one can, or nodes are still to join."""
    inside = job.program.container
    if inside is None or not cluster.nodes:
        return ""
    wanted = set(inside.engines)
    if any(wanted & set(_engines_of(node)) for node in cluster.nodes):
        return ""
    named = " or ".join(inside.engines)
    there = sorted({each for node in cluster.nodes for each in _engines_of(node)})
    has = f"nodes have {', '.join(there)}" if there else "they have no container engine"
    return f"container: no node has {named} to run {inside.image} ({has}); install it, or name another"


def _engines_of(node: Node) -> tuple[str, ...]:
    return engines_here() if node.offer is None else node.offer.containers
