"""Worlds whose truth was measured: what jobs really do, for a simulation to play."""
