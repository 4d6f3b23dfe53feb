"""Runs inside the training process: elastic groups, uneven shares, owned parameters. Needs torch."""
