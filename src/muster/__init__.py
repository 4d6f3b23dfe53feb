"""Muster: a scheduler and elastic training runtime for clusters of accelerators."""

__version__ = "0.1.0"
