"""Policies that others published, one file each."""
