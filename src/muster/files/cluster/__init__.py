"""Cluster files."""
