"""A training followed by its losses: mean loss of each epoch, what is left of it, whether it is flat.

One per live job, fed with the losses that it reports: by the daemon and, from the truth's curves, by
the simulator. The curve is refitted as the record grows by a part, so that the fits of a whole training
are few however many epochs it has.

A prediction that was overrun says that the curve does not hold. What is left is then at least as much
as a job has outlived the earliest end that was thought likely, among the predictions made since half of
its way: a job that always seems nearly done is believed less and less.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite, log

from muster.ending import RISEN, Ending, Trend
from muster.perf.epochs.convergence import Remaining, Target, remaining
from muster.perf.epochs.loss_curve import LossPoint
from muster.perf.estimate import Estimate, Unknown, WhyUnknown

MOST_MEANS = 256
"""Points kept; beyond that neighbours are averaged. The fit uses 64."""
GROWN = 1.05
"""Refitted once there are this many times the epochs of the last fit: a prediction from a record a
twentieth longer differs by less than its interval."""
FLAT = Ending(decrease=0.002, patience=5)
"""What is called converged of a training that does not end by its loss: stricter than the thresholds
that users give (0.5 to 1 %, 3 epochs), since nobody asked."""
WIDTH_80 = 2 * 1.2816
"""Standard deviations between the ends of an interval that holds four times out of five."""
LEAST_LEFT = 0.05
"""Epochs left of a training that has not ended."""
UNSURE = log(2.0)
"""Spread of what is left where only the most is known: a factor of two."""
MOST_SPREAD = 1.1
"""Spread of what is left of a job of which nothing is known: a factor of three."""


@dataclass(frozen=True, slots=True)
class EpochsLeft:
    """What is left of a training: epochs with an 80 % interval, and what was noticed."""

    epochs: Estimate
    notes: tuple[str, ...] = ()
    only_most: bool = False
    """Whether it is only known that it ends after its most epochs at the latest."""

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of what is left."""
        if self.only_most:
            return UNSURE
        low = max(self.epochs.low, LEAST_LEFT)
        return min(log(max(self.epochs.high, low) / low) / WIDTH_80, MOST_SPREAD)


class EpochMeans:
    """The mean loss of each whole epoch, from the losses of steps."""

    def __init__(self) -> None:
        self.points: list[LossPoint] = []
        self._each = 1
        """Epochs of a point."""
        self._pending: list[LossPoint] = []
        self._epoch, self._sum, self._count = -1, 0.0, 0
        self.fresh: list[float] = []
        """Means of epochs that ended since somebody looked."""

    @property
    def epochs(self) -> int:
        """Whole epochs so far."""
        return max(self._epoch, 0)

    def add(self, epoch: int, loss: float) -> None:
        """Take in the loss of a step of an epoch, counted from 0."""
        if epoch != self._epoch:
            if epoch > self._epoch >= 0:
                self._close()
            self.cut(epoch)
            self._epoch, self._sum, self._count = epoch, 0.0, 0
        self._sum += loss
        self._count += 1

    def cut(self, epoch: int) -> None:
        """Forget what follows an epoch: a restarted training repeats it."""
        self.points = [each for each in self.points if each.epoch <= epoch]
        self._pending = [each for each in self._pending if each.epoch <= epoch]

    def _close(self) -> None:
        mean = self._sum / self._count
        self.fresh.append(mean)
        self._pending.append(LossPoint(float(self._epoch + 1), mean))
        if len(self._pending) >= self._each:
            self.points.append(_middle(self._pending))
            self._pending = []
        if len(self.points) > MOST_MEANS:
            self._each *= 2
            whole = len(self.points) // 2 * 2
            self._pending = [*self.points[whole:], *self._pending]
            pairs = zip(self.points[:whole:2], self.points[1:whole:2], strict=True)
            self.points = [_middle(pair) for pair in pairs]


def _middle(points: Iterable[LossPoint]) -> LossPoint:
    """Return the mean of some points, which lies at the last of their epochs."""
    known = tuple(points)
    return LossPoint(known[-1].epoch, sum(each.loss for each in known) / len(known))


class LossFollower:
    """Follows one training."""

    def __init__(self) -> None:
        self.means = EpochMeans()
        self._target: Target | None = None
        self._answer: Remaining | Unknown = Unknown(WhyUnknown.TOO_FEW_POINTS, "no losses so far")
        self._fitted = 0
        """Epochs at the last fit."""
        self._likely: deque[tuple[int, float]] = deque()
        """Epochs at a fit, and the latest end that it thought likely."""
        self._trend = Trend()
        self._own = Trend()
        """The trend under what ends it; `_trend`: whether its loss is flat."""
        self._since = 0.0
        """The epoch at which its loss had risen for good: what came before is no part of its curve."""

    @property
    def target(self) -> Target | None:
        """What ends it; None: not its loss, or nobody knows."""
        return self._target

    def aim(self, target: Target | None) -> None:
        """Set what ends it."""
        if target != self._target:
            self._target, self._fitted = target, 0
            self._begin_again(0)

    def note(self, epoch: int, loss: float) -> None:
        """Take in the loss of a step of an epoch, counted from 0."""
        if epoch < self.means.epochs:
            self.means.cut(epoch)
            self._begin_again(epoch)
        self.means.add(epoch, loss)
        for mean in self.means.fresh:
            self._judge(LossPoint(float(epoch), mean))
        self.means.fresh.clear()

    def _judge(self, mean: LossPoint) -> None:
        self._trend = FLAT.after(self._trend, mean.loss)
        if self._target is not None and self._target.ending is not None:
            self._own = self._target.ending.after(self._own, mean.loss)
        if self._trend.risen >= RISEN:
            self._since = mean.epoch - RISEN

    def restore(self, points: Iterable[LossPoint]) -> None:
        """Continue from the means that an earlier follower had."""
        self.means.points = list(points)
        self._begin_again(0)

    def _begin_again(self, epoch: int) -> None:
        self._fitted = min(self._fitted, epoch)
        self._likely.clear()
        self._trend, self._own, self._since = Trend(), Trend(), 0.0
        for point in self.means.points:
            self._judge(point)

    @property
    def is_flat(self) -> bool:
        """Whether its loss has stopped falling."""
        return self._trend.flat >= FLAT.patience

    @property
    def why_unknown(self) -> str:
        """Why its end is not predicted; empty: it is."""
        self._refresh()
        return self._answer.detail if isinstance(self._answer, Unknown) else ""

    def left(self, done: float) -> EpochsLeft | None:
        """Return what is left after `done` epochs; None if nothing says so."""
        if self._target is None:
            return None
        self._refresh()
        most = inf if self._target.most is None else max(self._target.most - done, LEAST_LEFT)
        if isinstance(self._answer, Unknown):
            if most == inf:
                return None
            return EpochsLeft(Estimate(most, LEAST_LEFT, most), only_most=True)
        since = done - self._fitted
        found, floor = self._answer.epochs, max(self._outlived(done), LEAST_LEFT)
        mean, low, high = (
            min(max(each - since, least), most)
            for each, least in ((found.mean, floor), (found.low, LEAST_LEFT), (found.high, floor))
        )
        return EpochsLeft(Estimate(mean, low, high), tuple(n.sentence for n in self._answer.notes))

    def _outlived(self, done: float) -> float:
        """Return by how much it has outlived an end that was thought likely since half of its way."""
        ends = [end for at, end in self._likely if at >= done / 2]
        return done - min(ends) if ends else 0.0

    def _refresh(self) -> None:
        """Fit again if the record has grown enough."""
        epochs, target = self.means.epochs, self._target
        if target is None or epochs < max(GROWN * self._fitted, self._fitted + 1):
            return
        points = [each for each in self.means.points if each.epoch > self._since]
        self._answer = remaining(points, target, self._own if target.ending else self._trend)
        self._fitted = epochs
        if isinstance(self._answer, Remaining) and isfinite(self._answer.epochs.high):
            self._likely.append((epochs, epochs + self._answer.epochs.high))
        while self._likely and self._likely[0][0] < epochs / 2:
            self._likely.popleft()
