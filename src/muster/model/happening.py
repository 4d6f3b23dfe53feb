"""What happens to jobs that people want to be told."""

from enum import StrEnum


class Happening(StrEnum):
    """What can happen to a job."""

    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    PREEMPTED = "preempted"
    WAITING = "waiting"
    """It has waited for too long."""


USUAL = (Happening.SUCCEEDED.value, Happening.FAILED.value)
"""What is told if nothing is said."""
