"""The configuration sets a job may run on, in order of preference."""

from muster.model.cluster import Cluster
from muster.model.job import Job

Option = tuple[str, ...]
"""Names of configuration sets that one placement of the job may mix."""


def admission_key(job: Job) -> tuple[object, ...]:
    """All that a job asks of cluster and pools: jobs with equal keys can run in the same places."""
    asked = (job.roles, job.device_types, job.same_generation, job.locality)
    inside = job.program.container
    return (job.pool, job.preemptible, *asked, job.profile, job.model, job.batch, inside)


def options(job: Job, cluster: Cluster) -> tuple[Option, ...]:
    """Return one option per device generation the job allows; last, if it may mix them, all; none if
    no node that it could use is there.

    Types are in the order of the job's preference, else of the cluster file. A job without devices runs
    anywhere, but first on nodes without devices, to keep the cores beside devices free.
    """
    used = {node.configuration for node in cluster.nodes} - _without_engine(job, cluster)
    there = [kind for kind in cluster.configurations.values() if kind.name in used]
    if not any(spec.need.devices for spec in job.roles):
        bare = tuple(kind.name for kind in there if not kind.devices)
        every = tuple(kind.name for kind in there)
        return tuple(option for option in dict.fromkeys((bare, every)) if option)
    types = job.device_types or cluster.device_types()
    kinds = [
        kind
        for device_type in types
        for kind in there
        if kind.devices and kind.device_type == device_type
    ]
    generations = dict.fromkeys(kind.generation for kind in kinds)
    alike = tuple(tuple(kind.name for kind in kinds if kind.generation == each) for each in generations)
    if job.same_generation or len(alike) <= 1:
        return alike
    return (*alike, tuple(kind.name for kind in kinds))


def _without_engine(job: Job, cluster: Cluster) -> set[str]:
    """Return the configuration sets with a node that cannot run the job's container. What the daemon's
    own machine can was checked at submission."""
    inside = job.program.container
    if inside is None:
        return set()
    offered = ((node.configuration, node.offer) for node in cluster.nodes if node.offer is not None)
    return {name for name, offer in offered if not set(inside.engines) & set(offer.containers)}


def device_types(option: Option, cluster: Cluster) -> tuple[str, ...]:
    """Return the device types of an option, each once."""
    kinds = (cluster.configurations[name] for name in option)
    return tuple(dict.fromkeys(kind.device_type for kind in kinds if kind.devices))
