"""Nodes that Slurm lends: pilot allocations that follow the queue."""
