"""How far a live job is from the end that its loss sets, from what its tasks report.

The fit is `perf.epochs.follow`'s, which the simulator uses as well; here losses of steps become epochs,
and epochs become steps, the unit of a job's work: with a free batch, steps of the user's own batch.
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
from muster.wire.tasks.messages import Captured, StepDone

STORED = 64
"""Most points that survive a restart: as many as the fit uses."""


class LossState(msgspec.Struct, frozen=True):
    """A watch in the store."""

    until: str = ""
    most: int = 0
    each: float = 0.0
    points: tuple[tuple[float, float], ...] = ()
    own: int = 0


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
    most: int = 0
    """Steps after which it ends whatever its loss; 0: none, if its loss ends it."""
    is_fixed: bool = False
    """Whether that cannot be changed while it runs: its workers do not wait for each other."""


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
    _begun: float = -1.0
    """Steps done at the beginning of the current epoch; -1: not seen."""
    _done: float = 0.0
    """Steps done at the last report that counted."""
    _loss: float = 0.0
    """Of the last step."""
    _own: int = 0
    """Samples of the user's own step, if the batch is free; else 0."""

    def hear(self, done: StepDone) -> None:
        """Take in a step; others' reports of the same step say the same."""
        if (done.epoch, done.step) == self._at:
            return
        before, _ = self._at
        now, size = float(done.step), 1.0
        if self._own and done.done:
            now, size = done.done, done.batch / self._own
        if done.epoch != before:
            began = max(now - size, 0.0)
            if done.epoch == before + 1 and self._begun >= 0:
                self._each = began - self._begun or self._each
                self._aim()
            self._begun = began if done.epoch == before + 1 or done.step == 1 else -1.0
        self._at, self._done, self._loss = (done.epoch, done.step), now, done.loss
        self.follower.note(done.epoch, done.loss)

    def learn(self, captured: Captured) -> None:
        """Take in what ends the training, and how long an epoch should be."""
        self.until, self.most = captured.until, captured.most
        self._own = captured.batch if captured.largest else 0
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

    def epochs_left(self, done: float) -> EpochsLeft | None:
        """Return the epochs left after these steps; None if nothing tells."""
        if not self._each:
            return None
        return self.follower.left(self._epochs_at(done))

    def _epochs_at(self, done: float) -> float:
        """Return the epochs done after these steps, in parts of one."""
        epoch, last = max(self._at[0], 0), self._done
        part = (last - self._begun) / self._each if self._begun >= 0 else 0.0
        return max(epoch + min(part, 1.0) - max(last - done, 0.0) / self._each, 0.0)

    def left(self, done: float, efficiency: float = 1.0) -> Left | None:
        """Return the steps left after these; None if nothing tells.

        `efficiency`: what a sample teaches now, 1 with the user's own batch: the epochs left are of
        samples that teach as much as those that were seen."""
        found = self.epochs_left(done)
        return (
            None if found is None else Left(found.epochs.mean * self._each * efficiency, found.spread)
        )

    def predicts(self, done: float) -> bool:
        """Whether the losses say when it ends."""
        found = self.epochs_left(done)
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

    def ending(self, done: float) -> LossEnding:
        """Return what is known of the end after these steps."""
        found = self.epochs_left(done)
        left = None if found is None or found.only_most else found
        return LossEnding(
            self.until,
            _later(left.epochs, self._epochs_at(done)) if left else None,
            left.notes if left else (),
            self.follower.why_unknown if self.follower.target is not None and left is None else "",
            self.converged,
            self.most,
        )

    def state(self) -> LossState:
        """Return what survives a restart."""
        known = [each for each in self.follower.means.points if isfinite(each.loss)]
        kept = known[:: -(-(-len(known) // STORED) or 1)][::-1]
        points = tuple((each.epoch, each.loss) for each in kept)
        return LossState(self.until, self.most, self._each, points, self._own)

    @staticmethod
    def restored(state: LossState) -> "LossWatch":
        """Return the watch as it was stored."""
        watch = LossWatch(state.until, state.most, _each=state.each, _own=state.own)
        watch.follower.restore(LossPoint(epoch, loss) for epoch, loss in state.points)
        watch._aim()
        return watch


def _later(left: Estimate, done: float) -> Estimate:
    return Estimate(done + left.mean, done + left.low, done + left.high)
