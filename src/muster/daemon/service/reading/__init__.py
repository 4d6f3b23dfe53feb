"""Requests that read: jobs, their past, the cluster, and use."""
