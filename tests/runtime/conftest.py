"""Torch in the process of the tests: one thread, as a worker has."""

from contextlib import suppress

with suppress(ImportError):  # then all tests here are skipped
    import torch

    # Threads wait for each other by spinning: on a busy machine two take many times the CPU of one.
    torch.set_num_threads(1)
