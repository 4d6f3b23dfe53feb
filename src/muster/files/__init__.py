"""Cluster, job and profile files: parsed and checked, with errors by line."""

from muster.files.cluster.cluster_file import load_cluster
from muster.files.job.job_file import load_job
from muster.files.profile.profile_file import load_profile, shipped_profile

__all__ = ["load_cluster", "load_job", "load_profile", "shipped_profile"]
