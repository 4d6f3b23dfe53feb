"""A submitted sweep, to wait for, compare and stop."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.client.handles.tracked import Tracked
from muster.wire.api.records import JobRecord
from muster.wire.api.sweep_records import (
    SWEEP_OVER,
    MemberRecord,
    SweepDetail,
    SweepRecord,
    best_first,
)

if TYPE_CHECKING:
    from muster.client.calls.sweep_calls import SweepCalls

BETWEEN = 0.5
"""s between two looks at a sweep that is waited for."""


class SweepHandle(Tracked[SweepRecord]):
    """`sweep = client.sweep(...)`."""

    kind = "sweep"

    def __init__(self, client: "SweepCalls", record: SweepRecord) -> None:
        super().__init__(record)
        self._client = client

    def record(self) -> SweepRecord:
        """Return its current state."""
        if self._record.status not in SWEEP_OVER:
            self._record = self.detail().sweep
        return self._record

    def detail(self) -> SweepDetail:
        """Return it with its members."""
        return self._client.sweep_detail(self.number)

    def members(self) -> tuple[MemberRecord, ...]:
        """Return all members in order, with their values and metrics."""
        return self.detail().members

    def best(self, metric: str | None = None, *, largest: bool | None = None) -> MemberRecord | None:
        """Return the member with the best metric, by default what ranks the sweep; None: none has
        reported it."""
        own = self._record
        name = metric or own.metric
        most = (own.largest if name == own.metric else False) if largest is None else largest
        found = best_first(self.members(), name, largest=most)
        return found[0] if found and name in found[0].metrics else None

    def wait(self, timeout: float | None = None) -> SweepRecord:
        """Wait until all members are over; TimeoutError if that takes longer than `timeout` s."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.record().status not in SWEEP_OVER:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"sweep {self.number} has not finished yet")
            time.sleep(BETWEEN)
        return self._record

    def stop(self, *, force: bool = False) -> SweepRecord:
        """Stop all members; `force`: kill their tasks at once."""
        return self._client.stop_sweep(self.number, force=force)

    def resize(self, at_most: int | None) -> SweepRecord:
        """Change how many members may have tasks at once; None: any number."""
        return self._client.resize_sweep(self.number, at_most)

    def go_on(self, members: Sequence[str | int], *arguments: str) -> list[JobRecord]:
        """Continue members that are over from their checkpoints, with more arguments."""
        return self._client.continue_sweep(self.number, members, arguments)
