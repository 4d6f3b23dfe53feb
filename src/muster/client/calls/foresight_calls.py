"""What a client asks about forecasts."""

from typing import Any, Literal

from muster.client.connecting.connection import DaemonConnection, place
from muster.wire.api.foresight_records import AccuracyRecord, JobForecastRecord


class ForesightCalls:
    """The part of a client that is about forecasts."""

    @property
    def connection(self) -> DaemonConnection:
        """The connection to the daemon."""
        raise NotImplementedError

    def accuracy(
        self,
        what: Literal["start", "finish"] = "finish",
        *,
        since: float = 0.0,
        pool: str | None = None,
    ) -> AccuracyRecord:
        """Return how forecasts made since a moment, in s since 1970, came true."""
        query: dict[str, Any] = {"what": what, "since": since, "pool": pool}
        return self.connection.call(AccuracyRecord, "GET", "/v1/accuracy", query=query)

    def forecasts(self, which: str | int) -> list[JobForecastRecord]:
        """Return what was forecast of a job, oldest first, and what came of it."""
        return self.connection.call(list[JobForecastRecord], "GET", place("jobs", which, "forecasts"))
