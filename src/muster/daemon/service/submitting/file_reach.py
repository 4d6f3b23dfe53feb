"""Whether the nodes of a job see its files: a shared file system is found out, not assumed."""

from muster.model.cluster import Cluster
from muster.model.job import Job

_NAMED = 3


def reach_problem(job: Job, cluster: Cluster, blind: tuple[str, ...]) -> str:
    """Return why the job's tasks would not see the same files; empty if they would, or bring theirs."""
    if not blind or not _spans_blind(job, cluster, blind):
        return ""
    missing = [
        *(["its folder (add ship: .)"] if not job.program.ship else []),
        *(["its checkpoints (add checkpoint: s3://...)"] if not _is_remote(job) else []),
    ]
    if not missing:
        return ""
    return (
        f"it spans nodes that share no file system ({_some(blind)} see none of this machine's files), "
        f"and its tasks would not all see {' and '.join(missing)}; or let it fit one node"
    )


def reach_caveats(job: Job, blind: tuple[str, ...]) -> tuple[str, ...]:
    """Return what the submitter should know of nodes that do not see the daemon's files."""
    if not blind:
        return ()
    found = []
    if not job.program.ship:
        found.append(
            f"{_some(blind)} see none of this machine's files: the job fails there unless its folder "
            "and its program exist under the same path; --ship . brings the folder along"
        )
    if not _is_remote(job):
        found.append(
            f"checkpoints written on {_some(blind)} are seen by that node alone, and the job starts "
            "over elsewhere; --checkpoint s3://bucket/path puts them where every node finds them"
        )
    return tuple(found)


def _spans_blind(job: Job, cluster: Cluster, blind: tuple[str, ...]) -> bool:
    """Whether the gang needs several nodes, and more than those that share files have."""
    needed = sum(spec.gang * spec.need.devices for spec in job.roles)
    devices = {node.name: cluster.configuration_of(node).devices for node in cluster.nodes}
    sharing = sum(count for name, count in devices.items() if name not in blind)
    return needed > max(devices.values(), default=0) and needed > sharing


def _is_remote(job: Job) -> bool:
    return "://" in job.program.checkpoint and not job.program.checkpoint.startswith("file:")


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
