"""Cluster, job and profile files: parsed and checked, with errors by line."""

from typing import TYPE_CHECKING, Any

__all__ = ["load_cluster", "load_job", "load_profile", "shipped_profile"]

if TYPE_CHECKING:
    from muster.files.cluster.cluster_file import load_cluster
    from muster.files.job.job_file import load_job
    from muster.files.profile.profile_file import load_profile, shipped_profile

_WHERE = {
    "load_cluster": "muster.files.cluster.cluster_file",
    "load_job": "muster.files.job.job_file",
    "load_profile": "muster.files.profile.profile_file",
    "shipped_profile": "muster.files.profile.profile_file",
}


def __getattr__(name: str) -> Any:
    """Load on demand: who wants an error or a quantity should not wait 0.2 s for pydantic."""
    if name not in _WHERE:
        raise AttributeError(f"module 'muster.files' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
