"""How far a live job is from the end that its loss sets, from what its tasks report.

The fit is `perf.epochs.follow`'s, which the simulator uses as well; here losses of steps become epochs,
and epochs become steps, the unit of a job's work.
"""

from dataclasses import dataclass, field
from math import isfinite

import msgspec

from muster.ending import parse_ending
from muster.perf.epochs.convergence import Target
from muster.perf.epochs.follow import FLAT, EpochsLeft, LossFollower
from muster.perf.epochs.loss_curve import LossPoint
from muster.perf.estimate import Estimate
from muster.perf.learnt.lengths import Left
from muster.wire.messages import Captured, StepDone

STORED = 64
"""Most points that survive a restart: as many as the fit uses."""


class LossState(msgspec.Struct, frozen=True):
    """A watch in the store."""

    until: str = ""
    most: int = 0
    each: float = 0.0
    points: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class LossEnding:
    """When its loss ends a job, as far as it is known."""

    until: str
    """What ends it; empty: not its loss."""
    epochs: Estimate | None
    """Epochs of the whole training, as predicted."""
    notes: tuple[str, ...]
    """What was noticed of its losses."""
    unknown: str
    """Why nothing is predicted; empty: it is, or there is nothing to predict."""
    converged: str
    """That its loss has stopped falling; empty: it has not."""


@dataclass(slots=True)
class LossWatch:
    """Follows the losses of one job."""

    until: str = ""
    """What ends it, in words; empty: not its loss."""
    most: int = 0
    """Steps after which it ends at the latest; 0: none."""
    follower: LossFollower = field(default_factory=LossFollower)
    _each: float = 0.0
    """Steps of an epoch; 0: unknown."""
    _at: tuple[int, int] = (-1, -1)
    """Epoch and step of the last report that counted."""
    _begun: int = -1
    """First step of the current epoch; -1: not seen."""
    _loss: float = 0.0
    """Of the last step."""

    def hear(self, done: StepDone) -> None:
        """Take in a step; others' reports of the same step say the same."""
        if (done.epoch, done.step) == self._at:
            return
        before, _ = self._at
        if done.epoch != before:
            if done.epoch == before + 1 and self._begun >= 0:
                self._each = float(done.step - self._begun)
                self._aim()
            self._begun = done.step if done.epoch == before + 1 or done.step == 1 else -1
        self._at, self._loss = (done.epoch, done.step), done.loss
        self.follower.note(done.epoch, done.loss)

    def learn(self, captured: Captured) -> None:
        """Take in what ends the training, and how long an epoch should be."""
        self.until, self.most = captured.until, captured.most
        samples = captured.shape.get("samples")
        if not self._each and captured.batch and isinstance(samples, int | float) and samples > 0:
            self._each = float(-(-int(samples) // captured.batch))
        self._aim()

    def _aim(self) -> None:
        """Tell the follower what ends it, in epochs; a condition of a script's own tells nothing."""
        try:
            ending = parse_ending(self.until)
        except ValueError:
            self.follower.aim(None)
            return
        most = self.most / self._each if self.most and self._each else None
        self.follower.aim(Target.of(ending, most))

    def epochs_left(self, step: int) -> EpochsLeft | None:
        """Return the epochs left after a step; None if nothing says so."""
        if not self._each:
            return None
        return self.follower.left(self._epochs_at(step))

    def _epochs_at(self, step: int) -> float:
        """Return the epochs done at a step, in parts of one."""
        epoch, last = self._at
        part = (last - self._begun + 1) / self._each if self._begun >= 0 else 0.0
        return max(max(epoch, 0) + min(part, 1.0) - max(last - step, 0) / self._each, 0.0)

    def left(self, step: int) -> Left | None:
        """Return the steps left after a step; None if nothing says so."""
        found = self.epochs_left(step)
        return None if found is None else Left(found.epochs.mean * self._each, found.spread)

    def predicts(self, step: int) -> bool:
        """Whether the losses say when it ends."""
        found = self.epochs_left(step)
        return found is not None and not found.only_most

    @property
    def converged(self) -> str:
        """That its loss has stopped falling, in words; empty: it has not."""
        if not self.follower.is_flat:
            return ""
        assert FLAT.decrease is not None
        return (
            f"loss {self._loss:.4g}: each of the last {FLAT.patience} epochs lowered it by less than "
            f"{FLAT.decrease:.1%} of the first"
        )

    def ending(self, step: int) -> LossEnding:
        """Return what is known of the end after a step."""
        found = self.epochs_left(step)
        left = None if found is None or found.only_most else found
        return LossEnding(
            self.until,
            _later(left.epochs, self._epochs_at(step)) if left else None,
            left.notes if left else (),
            self.follower.why_unknown if self.follower.target is not None and left is None else "",
            self.converged,
        )

    def state(self) -> LossState:
        """Return what survives a restart."""
        known = [each for each in self.follower.means.points if isfinite(each.loss)]
        kept = known[:: -(-(-len(known) // STORED) or 1)][::-1]
        points = tuple((each.epoch, each.loss) for each in kept)
        return LossState(self.until, self.most, self._each, points)

    @staticmethod
    def restored(state: LossState) -> "LossWatch":
        """Return the watch as it was stored."""
        watch = LossWatch(state.until, state.most, _each=state.each)
        watch.follower.restore(LossPoint(epoch, loss) for epoch, loss in state.points)
        watch._aim()
        return watch


def _later(left: Estimate, done: float) -> Estimate:
    return Estimate(done + left.mean, done + left.low, done + left.high)
