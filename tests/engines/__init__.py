"""Muster on real engines: Ray, Slurm."""
