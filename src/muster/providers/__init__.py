"""Bring agents to the nodes of an engine."""
