"""Samples of an asynchronous training, leased to workers one mini-batch at a time.

The lease of a lost worker is granted again, so every sample is used at least once per epoch; twice if a
worker dies between its push and its report. Workers may start the next epoch while a lease of the last
is still out.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from muster.runtime.data.samples import Order, Position


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """One mini-batch, named by its position."""

    number: int
    place: Position


class LeasedBatches:
    """Who has which samples, and which are done. Thread-safe."""

    def __init__(
        self,
        order: Order,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        until: Callable[[float], bool] | None = None,
        position: Position | None = None,
    ) -> None:
        """`order`: its batch is one lease. `until`: a condition on an epoch's mean loss."""
        self._order, self._epochs, self._steps, self._until = order, epochs, steps, until
        self._next = self._begun = position or Position()
        self._open: dict[int, tuple[int, LeasedBatch]] = {}
        self._back: deque[LeasedBatch] = deque()
        self._count = 0
        self._stopped = False
        self._sums: dict[int, tuple[float, int]] = {}
        self._changed = threading.Condition()
        self.done = self._next.step
        """Finished leases."""
        self.losses: list[float] = []
        """Mean loss of each finished epoch."""
        self.repeated = 0
        """Leases granted again."""

    @property
    def ended(self) -> bool:
        """Whether all samples are done, or enough of them."""
        with self._changed:
            return self._ended()

    @property
    def position(self) -> Position:
        """Where to resume after a restart: at the first unfinished lease."""
        with self._changed:
            out = [*(lease for _, lease in self._open.values()), *self._back]
            places = [*(lease.place for lease in out), self._next]
            return min(places, key=lambda place: (place.epoch, place.cursor))

    def take(self, holder: int, wait: float) -> LeasedBatch | None:
        """Lease a batch; None if there is none within `wait` s, or none left."""
        with self._changed:
            self._changed.wait_for(lambda: self._back or self._more() or self._ended(), wait)
            if self._back:
                lease = self._back.popleft()
            elif self._more():
                self._count += 1
                lease = LeasedBatch(self._count, self._next)
                self._next = self._order.after(self._next)
            else:
                return None
            self._open[lease.number] = (holder, lease)
            return lease

    def finish(self, number: int, losses: float, samples: int) -> None:
        """Finish a lease with its sum of losses; ignore one that was taken back."""
        with self._changed:
            _, lease = self._open.pop(number, (0, None))
            if lease is None:
                return
            self.done += 1
            epoch = lease.place.epoch
            before, count = self._sums.get(epoch, (0.0, 0))
            self._sums[epoch] = before + losses, count + samples
            order, begun = self._order, self._begun
            whole = min(order.count, order.steps_per_epoch * order.batch)
            # Of the first epoch, those left at the start.
            if count + samples >= whole - (begun.cursor if epoch == begun.epoch else 0):
                self._close_epoch(epoch)
            self._changed.notify_all()

    def lose(self, holder: int) -> None:
        """Grant the leases of a lost holder again."""
        with self._changed:
            lost = [number for number, (other, _) in self._open.items() if other == holder]
            for number in lost:
                _, lease = self._open.pop(number)
                if not self._stopped:
                    self._back.append(lease)
                    self.repeated += 1
            self._changed.notify_all()

    def _close_epoch(self, epoch: int) -> None:
        total, count = self._sums.pop(epoch)
        self.losses.append(total / count)
        if self._until is not None and self._until(total / count):
            self._stopped = True
            self._back.clear()

    def _more(self) -> bool:
        return not (
            self._stopped
            or (self._epochs is not None and self._next.epoch >= self._epochs)
            or (self._steps is not None and self._next.step >= self._steps)
        )

    def _ended(self) -> bool:
        return not (self._more() or self._open or self._back)
