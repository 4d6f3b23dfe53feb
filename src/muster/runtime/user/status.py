"""What a session tells of its steps and members."""

from math import isnan, nan

from muster.runtime.data.feed import NO_SAMPLES
from muster.runtime.data.samples import Position
from muster.runtime.settings import TaskSettings
from muster.runtime.state.state import TrainingState
from muster.runtime.step.engine import StepEngine
from muster.runtime.user.gradients import StepGradients


class StepStatus:
    """Where a session's training is, and who takes part."""

    settings: TaskSettings
    _state: TrainingState | None
    _engine: StepEngine | None
    _gradients: StepGradients

    @property
    def loss(self) -> float:
        """Mean loss of the last step over the global batch; NaN before the first."""
        return self._state.loss if self._state else nan

    @property
    def epoch_loss(self) -> float | None:
        """Mean loss of the last complete epoch; None before its end."""
        found = self._state.epoch_loss if self._state else nan
        return None if isnan(found) else found

    @property
    def step(self) -> int:
        """Steps done."""
        return self._position.step

    @property
    def epoch(self) -> int:
        """The current epoch, from 0."""
        return self._position.epoch

    @property
    def applied(self) -> bool:
        """Whether the last step counted: after `optimizer.step()`, and at the top of the next loop.

        False if a member was lost and the step is redone. Guard what counts steps with it:
        `if ctx.applied: ema.update(model)`.
        """
        return self._gradients.applied

    @property
    def workers(self) -> int:
        """Current workers."""
        crew = self._engine.crew if self._engine else None
        return crew.workers if crew else 1

    @property
    def share(self) -> int:
        """Samples of this worker in the current step; if 0, its batch is a stand-in."""
        return self._gradients.part.count

    @property
    def total(self) -> int:
        """Samples of all workers in the current step."""
        return self._gradients.part.total

    @property
    def first(self) -> int:
        """The place of this worker's first sample in the whole batch of the step."""
        part = self._gradients.part
        return min(part.first, max(0, part.total - NO_SAMPLES)) if not part.count else part.first

    @property
    def formation(self) -> int:
        """The number of the current set of tasks; it grows with every change."""
        crew = self._engine.crew if self._engine else None
        return crew.formation if crew else 0

    @property
    def entered(self) -> bool:
        """Whether this worker has the whole state; a joiner's first steps are without."""
        return self._engine is None or self._engine.is_whole

    @property
    def step_loss(self) -> float:
        """Mean loss of the current step over all workers, once its update is done."""
        state, total = self._state, self._gradients.part.total
        return state.partial / total if state is not None and total else nan

    @property
    def primary(self) -> bool:
        """Whether this worker speaks for all: print, plot and save on it."""
        return self._engine.primary if self._engine else self.settings.task == "worker-0"

    @property
    def _position(self) -> Position:
        raise NotImplementedError
