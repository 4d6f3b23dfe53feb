"""Starts and coordinates the tasks of a job on this node, without a daemon."""
