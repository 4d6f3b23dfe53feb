"""The steps of a training as the user's loop sees them, from the first batch to the last checkpoint."""

from collections.abc import Callable, Iterator
from math import isnan
from typing import Any

import torch

from muster.runtime.data.feed import Feed
from muster.runtime.data.samples import Position, mixed_seed
from muster.runtime.errors import LeftError
from muster.runtime.members.ballot import LEAVE, SAVE, STOP
from muster.runtime.shape.trace import mapped
from muster.runtime.shards.ownership import LostShardError
from muster.runtime.state.state import TrainingState
from muster.runtime.step.engine import StepEngine
from muster.runtime.user.failures import say
from muster.runtime.user.gradients import Gradients
from muster.runtime.user.saving import Saving

Ends = Callable[[Position], bool]
"""Whether a training is done at a position."""
Met = Callable[[float], bool]
"""Whether an epoch's mean loss ends it."""


class Loop:
    """One task's steps."""

    def __init__(
        self, engine: StepEngine, gradients: Gradients, saving: Saving, ends: Ends, met: Met | None
    ) -> None:
        self._engine, self._gradients, self._saving = engine, gradients, saving
        self._ends, self._met = ends, met
        self._state: TrainingState = engine.state
        self._feed: Feed = engine.feed
        engine.on_commit = self._note_step

    def run(self) -> Iterator[Any]:
        """Yield this worker's batch of each step, until the training ends."""
        engine, state = self._engine, self._state
        try:
            engine.join()
            self._tell_complete()
            if engine.works:
                yield from self._train()
            else:
                self._serve()
            self._end()
        except LostShardError as problem:
            say(f"{problem}; step {state.position.step} is done, but its checkpoint is not written")
            engine.leave()

    def _tell_complete(self) -> None:
        """Say that a checkpoint left nothing to do: silence would look like a training."""
        if self._state.position.step and self._is_done() and self._engine.primary:
            say(f"already complete at step {self._state.position.step}: nothing left to train")

    def _train(self) -> Iterator[Any]:
        engine, gradients = self._engine, self._gradients
        while not self._is_over():
            gradients.begin(engine.begin())
            yield self._batch()
            gradients.check_summed()
            if engine.void:
                engine.redo()
                continue
            gradients.check_applied()
            engine.commit()

    def _serve(self) -> None:
        """Take part in every step as a server, without samples."""
        engine = self._engine
        while not self._is_over():
            self._gradients.begin(engine.begin())
            engine.sum()
            if engine.void:
                engine.redo()
                continue
            if engine.updates:
                engine.owned.commit()
            engine.commit()

    def _batch(self) -> Any:
        """Load this worker's samples; a stand-in if it has none."""
        part, position, device = self._gradients.part, self._state.position, self._engine.device
        # For dropout and the like: by sample, and the same when a step is redone.
        seed = mixed_seed(self._feed.seed, position.step, part.first)
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        return moved(self._feed.load(position, part), device)

    def _is_over(self) -> bool:
        return bool(self._engine.requested & STOP) or self._is_done()

    def _is_done(self) -> bool:
        """Whether the training has reached the end set by the user."""
        state = self._state
        if self._ends(state.position):
            return True
        ended = state.position.cursor == 0 and not isnan(state.epoch_loss)
        return bool(ended and self._met and self._met(state.epoch_loss))

    def _note_step(self, before: Position, losses: float) -> None:
        """Update losses after a step, and save if a checkpoint is due."""
        engine, state, part = self._engine, self._state, self._gradients.part
        state.loss = losses / part.total
        self._gradients.note_fitted()
        if state.position.epoch > before.epoch:
            state.epoch_loss = state.losses / max(1, before.cursor + part.total)
            state.losses = 0.0
        if before.step == 0:
            self._saving.prepare(state)
        if self._saving.is_due(state.position.step) or engine.requested & (SAVE | STOP):
            self._saving.save(engine, state)

    def _end(self) -> None:
        engine, state = self._engine, self._state
        if engine.holds or engine.updates:
            self._saving.save_last(engine, state)
        if engine.requested & LEAVE and not self._is_done():
            engine.leave("stopped")
            raise LeftError(0)
        if not engine.holds:
            engine.leave("finished" if not engine.works else "left")
            raise LeftError(0)  # without the whole state it has no result
        engine.leave()
        engine.feed.close()


def moved(batch: Any, device: torch.device) -> Any:
    """Return a batch with its tensors on a device."""
    return mapped(batch, lambda tensor: tensor.to(device, non_blocking=True))
