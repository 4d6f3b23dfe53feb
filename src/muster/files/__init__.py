"""Cluster, job and profile files: parsed and checked, with errors by line."""

from muster.files.cluster.cluster_file import ClusterFile, cluster_schema, load_cluster
from muster.files.errors import InputError
from muster.files.job.job_file import JobFile, job_of, job_schema, load_job, read_job
from muster.files.profile.profile_file import (
    load_profile,
    profile_schema,
    profile_text,
    shipped_profile,
    shipped_profiles,
)
from muster.files.source.faults import Fault, FaultsError
from muster.files.source.validation import schema_text

__all__ = [
    "ClusterFile",
    "Fault",
    "FaultsError",
    "InputError",
    "JobFile",
    "cluster_schema",
    "job_of",
    "job_schema",
    "load_cluster",
    "load_job",
    "load_profile",
    "profile_schema",
    "profile_text",
    "read_job",
    "schema_text",
    "shipped_profile",
    "shipped_profiles",
]
