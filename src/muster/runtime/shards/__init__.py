"""Owners that also update: the optimiser's state in shards, with mirrors."""
