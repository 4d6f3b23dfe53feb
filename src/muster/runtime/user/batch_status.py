"""What a session tells of its global batch."""

from muster.runtime.data.feed import Feed
from muster.runtime.data.limits import BatchLimits
from muster.runtime.data.samples import Position
from muster.runtime.step.engine import StepEngine
from muster.runtime.user.gradients import StepGradients


class BatchStatus:
    """The batch of a session, and what is known of it."""

    _engine: StepEngine | None
    _feed: Feed | None
    _limits: BatchLimits
    _gradients: StepGradients

    @property
    def batch(self) -> int:
        """Samples of a full step over all workers, now."""
        return self._feed.batch if self._feed else 0

    @property
    def seen(self) -> int:
        """Samples that the training has seen, over all workers and epochs."""
        return self._position.seen

    @property
    def noise(self) -> float | None:
        """The gradient's noise scale in samples, measured if the batch is free; None: unknown."""
        return self._engine.batching.noise.samples if self._engine else None

    @property
    def efficiency(self) -> float | None:
        """How much a sample teaches at the current batch, 1 at your own; None: unknown."""
        return self._engine.batching.efficiency(self.batch) if self._engine else None

    @property
    def own_steps(self) -> int:
        """Steps of your own batch that the current step stands for: 1 unless the batch has grown.

        For a schedule that counts steps: `for _ in range(ctx.own_steps): scheduler.step()`.
        """
        own, before = self._limits.own, self._position.seen
        if not self._limits.free:
            return 1
        return (before + self._gradients.part.total) // own - before // own

    @property
    def _position(self) -> Position:
        raise NotImplementedError
