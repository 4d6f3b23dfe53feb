"""Puts daemon, executor, store and API together: `muster up` and `muster.local()`."""
