"""Executors: they run tasks."""
