"""Owners that also update: the optimizer's state in shards, with mirrors."""
