"""Gangs that no device type holds alone.

Policies deal one type at a time. A job that may start on several (`same_generation: false`) and whose
gang is larger than each of them is not theirs: under every policy it queues for devices of several
types, and keeps them while it runs.
"""

from collections.abc import Mapping

from muster.model.job import Job
from muster.planner.counts import plan_for


def straddles(job: Job, capacity: Mapping[str, int]) -> bool:
    """Whether only several types together hold the job's gang; `capacity`: devices by type."""
    if job.same_generation:
        return False
    sizes = [capacity[each] for each in job.device_types or capacity if each in capacity]
    return len(sizes) > 1 and max(sizes) < plan_for(job, job.workers.gang).devices
