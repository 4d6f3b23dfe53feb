"""Moves that make room for waiting jobs, on request."""
