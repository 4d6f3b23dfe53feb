"""The steps of a training as the user's loop sees them, from the first batch to the last checkpoint."""

import atexit
from collections.abc import Callable, Iterator
from math import isnan
from typing import Any

import torch

from muster.ending import Ending
from muster.runtime.data.feed import Feed
from muster.runtime.data.samples import Position, mixed_seed
from muster.runtime.errors import BadTrainingError, BrokenGroupError, LeftError, MinorityError
from muster.runtime.members.ballot import LEAVE, SAVE, STOP
from muster.runtime.shape.trace import mapped
from muster.runtime.shards.ownership import LostShardError
from muster.runtime.state.given_ending import NEVER
from muster.runtime.state.state import TrainingState
from muster.runtime.step.engine import StepEngine
from muster.runtime.user.failures import say
from muster.runtime.user.gradients import StepGradients
from muster.runtime.user.mistakes import NO_PHASE
from muster.runtime.user.saving import Saving
from muster.runtime.user.together import Together
from muster.runtime.user.until import Met

UNGIVEN = Ending(bound=NEVER)
Ends = Callable[[Position], bool]
"""Whether a training is done at a position."""


class Loop:
    """One task's steps.

    Whatever changes between two steps does so when a batch is handed out, and nowhere else: members,
    checkpoints, the end. User code from one batch to the next is run by the same workers.
    """

    def __init__(
        self,
        engine: StepEngine,
        gradients: StepGradients,
        saving: Saving,
        ends: Ends,
        until: Ending | Met | None,
    ) -> None:
        self._engine, self._gradients, self._saving = engine, gradients, saving
        self._ends, self._until = ends, until
        self._state: TrainingState = engine.state
        self._feed: Feed = engine.feed
        engine.on_commit, engine.on_turn = self._note_step, self._save_if_due
        engine.is_due = saving.is_due
        self.together = Together(engine, self)
        self.nested = self._stops = False
        """Whether the user's loop goes over epochs; whether this worker wants to stop."""
        self._turned = -1
        """The position of the last turn between two steps."""
        self._begun: Position | None = None
        """Where the step began that user code is in; None: in none."""
        self._settled = False
        """That step is committed."""
        self.ended = False

    @property
    def in_step(self) -> bool:
        """Whether user code is between a batch and the next."""
        return self._begun is not None

    @property
    def is_void(self) -> bool:
        """Whether user code is in a step that will be redone."""
        return self._begun is not None and not self._settled and self._engine.void

    @property
    def position(self) -> Position:
        """Progress as user code sees it: it does not change within a step."""
        return self._begun or self._state.position

    def run(self) -> Iterator[Any]:
        """Yield this worker's batch of each step, until the training ends."""
        self.join()
        yield from self._batches()
        self.end()

    def run_epochs(self) -> Iterator[int]:
        """Yield the number of each epoch, until the training ends; `run_epoch` yields its batches."""
        self.join()
        self.nested = True
        while not self._is_over():
            before = self._state.position
            yield before.epoch
            if self._state.position.epoch == before.epoch and not self._is_over():
                raise BadTrainingError(
                    f"epoch {before.epoch} is not complete: within `for epoch in ctx.epochs()`, run "
                    "`for batch in ctx.steps()` to its end; ctx.stop() ends the training"
                )
        self.end()

    def run_epoch(self) -> Iterator[Any]:
        """Yield this worker's batch of each step of the current epoch."""
        yield from self._batches(self._state.position.epoch)

    def join(self) -> None:
        """Become a member; a server stays one until the training ends."""
        engine = self._engine
        engine.join()
        self._turned = self._state.position.step
        self._tell_complete()
        if not engine.works:
            self._serve()
            self.end()

    def stop(self) -> None:
        """End the training of all workers at the next turn or sum."""
        self._stops = True
        self._engine.ask_to_stop()

    def _tell_complete(self) -> None:
        """Say that a checkpoint left nothing to do: silence would look like a training."""
        if self._state.position.step and self._is_done() and self._engine.primary:
            say(f"already complete at step {self._state.position.step}: nothing left to train")

    def _batches(self, epoch: int | None = None) -> Iterator[Any]:
        """Yield batches to the end of the training, or of an epoch."""
        engine, state = self._engine, self._state
        while not self._is_over() and epoch in (None, state.position.epoch):
            self._turn()
            if self._is_over():
                return
            self._gradients.begin(engine.begin())
            engine.log.begin_step()
            self._begun, self._settled = state.position, False
            yield self._batch()
            self._gradients.check_summed()
            if self.settle():
                engine.redo()
                engine.log.end_void(state.position.step)
            self._begun = None

    def settle(self) -> bool:
        """Commit the open step if it is applied; return whether it is void, or not summed yet."""
        engine, gradients = self._engine, self._gradients
        if self._begun is None or self._settled:
            return False
        if not gradients.is_called or engine.void:
            return True
        gradients.check_applied()
        engine.commit()
        engine.log.keep()
        self._settled = True
        return False

    def sum(self) -> None:
        """Note that user code has come to the first sum of the open step."""
        if self._begun is None:
            return
        if self._settled:
            raise BadTrainingError(NO_PHASE)
        self._engine.log.sum(self._begun.step + 1)

    def _turn(self) -> None:
        """Between two steps, once: end if a worker wants to, save if due, change members."""
        if self._turned == self._state.position.step:
            return
        self._turned = self._state.position.step
        crew = self._engine.crew
        # Servers hear of it with the next ballot only, so all wait for that.
        agrees = self._engine.log.is_used or (self.nested and not self._state.position.cursor)
        if agrees and crew is not None and crew.size == crew.workers and self.together.any(self._stops):
            self._engine.requested |= STOP
            return
        self._engine.turn()

    def _serve(self) -> None:
        """Take part in every step as a server, without samples."""
        engine = self._engine
        while not self._is_over():
            engine.turn()
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
        return ended and self._is_met(state.epoch_loss)

    def _is_met(self, loss: float) -> bool:
        until = self._state.given.instead_of(self._until)
        if isinstance(until, Ending):
            return until.is_met(self._state.trend, loss)
        return until is not None and bool(until(loss))

    def _note_step(self, before: Position, losses: float) -> None:
        """Update losses after a step."""
        state, part = self._state, self._gradients.part
        state.loss = losses / part.total
        self._gradients.note_fitted()
        if state.position.epoch > before.epoch:
            state.epoch_loss = state.losses / max(1, before.cursor + part.total)
            state.losses = 0.0
            until = state.given.instead_of(self._until)
            # Without one, too: an ending that is given later knows the epochs before it.
            rule = until if isinstance(until, Ending) else UNGIVEN
            state.trend = rule.after(state.trend, state.epoch_loss)
        if before.step == 0:
            self._saving.prepare(state)

    def _save_if_due(self) -> None:
        if self._engine.requested & SAVE:
            self._engine.check_whole()  # what is saved is what all have
            self._saving.save(self._engine, self._state)

    def end(self) -> None:
        """End the training with its last checkpoint; the workers can still evaluate together."""
        engine, state = self._engine, self._state
        self.ended = True
        self._check_last()
        try:
            if engine.holds or engine.updates:
                self._saving.save_last(engine, state)
        except LostShardError as problem:
            say(f"{problem}; step {state.position.step} is done, but its checkpoint is not written")
            engine.leave()
            return
        if engine.requested & LEAVE and not self._is_done():
            engine.leave("stopped")
            raise LeftError(0)
        if not engine.holds:
            engine.leave("finished" if not engine.works else "left")
            raise LeftError(0)  # without the whole state it has no result
        if engine.settings.coordinator is None and engine.whole:
            engine.leave()
        else:
            engine.say_goodbye()
            atexit.register(engine.close)
        engine.feed.close()
        self._saving.check_last(alone=engine.settings.coordinator is None)

    def _check_last(self) -> None:
        """Compare the result with the other workers'; if one is lost meanwhile, do without."""
        try:
            self._engine.check_whole()
        except MinorityError:
            self._engine.lose()
            self._engine.redo()  # the others have left
        except BrokenGroupError:
            return


def moved(batch: Any, device: torch.device) -> Any:
    """Return a batch with its tensors on a device."""
    return mapped(batch, lambda tensor: tensor.to(device, non_blocking=True))
