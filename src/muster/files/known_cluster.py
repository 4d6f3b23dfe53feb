"""The cluster of a file for questions without a daemon: written by hand, or a live one's snapshot."""

from pathlib import Path

from muster.files.cluster.cluster_file import ClusterFile, load_listed
from muster.files.snapshot import is_snapshot, load_snapshot


def load_known(path: Path) -> ClusterFile:
    """Load a cluster file that lists nodes, or a snapshot: its pools, its nodes all up and free."""
    if not is_snapshot(path):
        return load_listed(path)
    view = load_snapshot(path).view
    return ClusterFile(view.cluster.emptied(), view.pools)
