"""Planners in processes of their own, for large clusters."""
