"""Processes that a benchmark starts: what they report, and their end."""

from multiprocessing.connection import Connection, wait
from typing import Any


def receive(pipe: Connection, seconds: float) -> Any:
    """What a process reports; `TimeoutError` if it does not."""
    if not wait([pipe], seconds):
        raise TimeoutError(f"no report within {seconds:g} s")
    return pipe.recv()


def stop(process: Any) -> None:
    """Wait a little for a process to end by itself, then end it."""
    if process.pid is None:
        return
    process.join(5)
    if process.is_alive():
        process.kill()
        process.join(5)
