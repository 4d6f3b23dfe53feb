"""When Python looks for cycles among the daemon's objects: each look stops all threads.

A job is some forty objects, and next to none of them are in cycles: a look at all of those of 10,000
jobs takes 60 to 130 ms and finds next to nothing. So those that have lived for a while are set aside.
"""

import gc

THRESHOLD = (2_000, 10, 100)
"""A look at the young objects takes a millisecond, one at those that outlived ten of them some 5 ms."""


def set_aside() -> None:
    """Look no more at what lives now: called with each snapshot, every 5,000 facts."""
    gc.collect(1)  # what is young may be in cycles
    gc.freeze()


def look_at_all() -> None:
    """Look at everything once: called every hour, for the cycles that were set aside alive."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
