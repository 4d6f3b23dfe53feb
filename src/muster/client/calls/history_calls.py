"""What a client asks about the past."""

from collections.abc import Iterator
from typing import Any

from muster.client.connecting.connection import DaemonConnection, place
from muster.wire.api.history_records import JobCurves, SpanRecord, TimelinePage


class HistoryCalls:
    """The part of a client that is about the past."""

    @property
    def connection(self) -> DaemonConnection:
        """The connection to the daemon."""
        raise NotImplementedError

    def curves(self, which: str | int, *, after: float = 0.0) -> JobCurves:
        """Return how a training went: loss, metrics, rate and workers over its steps, and the devices
        it held. `after`: only points later than this, in s since 1970."""
        query: dict[str, Any] = {"after": after}
        return self.connection.call(JobCurves, "GET", place("jobs", which, "curves"), query=query)

    def timeline(
        self, *, since: float | None = None, until: float | None = None
    ) -> Iterator[SpanRecord]:
        """Yield who held which devices when, by beginning; by default within the last day."""
        query: dict[str, Any] = {"since": since, "until": until}
        while True:
            page = self.connection.call(TimelinePage, "GET", "/v1/timeline", query=query)
            yield from page.spans
            if page.next is None:
                return
            query = {"since": page.since, "until": page.until, "cursor": page.next}
