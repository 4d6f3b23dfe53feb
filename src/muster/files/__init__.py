"""The edge where text becomes nouns: cluster files and job files, checked to the line."""

from muster.files.cluster_file import ClusterFile, cluster_schema, load_cluster
from muster.files.errors import InputError
from muster.files.job_file import job_schema, load_job
from muster.files.validation import schema_text

__all__ = [
    "ClusterFile",
    "InputError",
    "cluster_schema",
    "job_schema",
    "load_cluster",
    "load_job",
    "schema_text",
]
