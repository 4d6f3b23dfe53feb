"""What a client asks about a job's story."""

from typing import Any

from muster.client.connecting.connection import DaemonConnection, place
from muster.wire.api.story_records import JobStory


class StoryCalls:
    """The part of a client that is about stories."""

    @property
    def connection(self) -> DaemonConnection:
        """The connection to the daemon."""
        raise NotImplementedError

    def story(self, which: str | int, *, advice: bool = True, every: bool = False) -> JobStory:
        """Return what happened to a job, what keeps it now, and what would start or enlarge it.

        `advice`: look for that, which takes a cycle for each change tried; `every`: all lines.
        """
        query: dict[str, Any] = {"advice": advice, "every": every}
        return self.connection.call(JobStory, "GET", place("jobs", which, "story"), query=query)
