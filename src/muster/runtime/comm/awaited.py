"""Threads in torch's C++, awaited when the process ends.

A thread that comes back from C++ while the interpreter is being taken down ends the whole process
("terminate called without an active exception"), and a training that was done would have failed.
"""

import atexit
import threading
import time
from collections.abc import Callable

PATIENCE = 30.0
"""Seconds for all of them together at the end; each has a deadline of its own."""
_threads: set[threading.Thread] = set()


def start_awaited(act: Callable[[], object], name: str) -> threading.Thread:
    """Do something in a thread that the end of the process waits for."""
    thread = threading.Thread(target=_run, args=(act,), name=name, daemon=True)
    _threads.add(thread)
    thread.start()
    return thread


def _run(act: Callable[[], object]) -> None:
    try:
        act()
    finally:
        _threads.discard(threading.current_thread())


@atexit.register
def _await() -> None:
    until = time.monotonic() + PATIENCE
    for thread in list(_threads):
        thread.join(max(0.0, until - time.monotonic()))
