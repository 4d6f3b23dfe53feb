"""When and by whom a training's state is saved, and what it starts from."""

import atexit
import os
import sys

from muster.runtime.data.samples import Position
from muster.runtime.errors import BadCheckpointError, BadTrainingError, BrokenGroupError
from muster.runtime.members.crew import plan_name
from muster.runtime.settings import TaskSettings
from muster.runtime.sharded.sharded_state import opened
from muster.runtime.state.checkpoint import Checkpoints
from muster.runtime.state.fence import WriterTerm, WriterTerms
from muster.runtime.state.own_place import leave_link, own_place, path_or_url
from muster.runtime.state.owner import claim_of
from muster.runtime.state.places import is_url
from muster.runtime.state.state import TrainingState
from muster.runtime.step.engine import StepEngine
from muster.runtime.user.failures import say
from muster.wire.tasks.messages import Saved

HEARD = 10.0
"""s for the coordinator to hear of a new formation before its primary claims the checkpoints."""


class Saving:
    """The checkpoints of one task's training; without a folder none are written."""

    def __init__(self, settings: TaskSettings) -> None:
        self._settings = settings
        self.checkpoints: Checkpoints | None = None
        """Where the state is saved; None: nowhere."""
        self._every: int | None = None
        self.start: tuple[int, int] | None = None
        """Epoch and step of it to start at if there is no checkpoint; None: the beginning."""
        self.engine: StepEngine | None = None
        """Set when training begins."""
        self._ends_badly = False
        if settings.coordinator is not None:
            atexit.register(self._exit)  # early, so that it is the last to be called

    def into(self, folder: str, every: int, keep: int, resume_from: str | None) -> None:
        """Save every `every` steps into a folder or URL; see `Session.checkpoint`."""
        source = resume_from or self._settings.resume_from
        claim = claim_of(self._settings, path_or_url(source) if source else None)
        where = own_place(folder, self._settings.checkpoint)
        terms = WriterTerms(self._term, self._heard, self._spanning_term)
        self.checkpoints = Checkpoints(where, keep, self._tell_saved, say, claim, terms)
        self._every = every

    def prepare(self, state: TrainingState) -> None:
        """Make room for the first checkpoint: the optimiser has created its state by now."""
        if self.checkpoints is not None and self.engine is not None and self.engine.primary:
            self.checkpoints.prepare(state.whole())

    def is_due(self, step: int) -> bool:
        """Whether a checkpoint belongs after this step."""
        return self._every is not None and step % self._every == 0

    def save(self, engine: StepEngine, state: TrainingState, wait: bool = False) -> None:
        """Save on the primary; if owners update, all members take part."""
        if self.checkpoints is None and not wait:
            return
        if engine.saves_parts:
            engine.save_parts(self.checkpoints, wait)
            return
        optimizer = engine.gather(self.checkpoints is not None)
        if self.checkpoints is not None and engine.primary:
            signature, whole = state.signature(), state.whole()
            if optimizer is not None:
                whole["optimizer"] = optimizer
            self.checkpoints.save(state.position.step, whole, signature, wait)

    def save_last(self, engine: StepEngine, state: TrainingState) -> None:
        """Write the last checkpoint; if owners update, with all members, and again if one is lost."""
        engine.ended = True
        while True:
            try:
                self.save(engine, state, wait=True)
                break
            except BrokenGroupError:
                engine.lose()
                engine.redo()
        engine.end()

    def check_last(self, alone: bool) -> None:
        """Let the process fail if its last checkpoint was not written.

        As a task of a job it fails at its very end: what the script does after the loop may save the
        result elsewhere.
        """
        failed = self.checkpoints.failed if self.checkpoints is not None else ""
        if failed and alone:
            raise BadCheckpointError(f"the last {failed}")
        if failed:
            say("the last checkpoint is missing, so that this task will end with exit code 1")
            self._ends_badly = True

    def _exit(self) -> None:
        if self._ends_badly:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    def restore(self, state: TrainingState) -> bool:
        """Load the latest checkpoint, as the one that writes the next; False: start from scratch."""
        return self._load(state) or self._start_at(state)

    def _start_at(self, state: TrainingState) -> bool:
        """Start where the user said; False: at the beginning."""
        if state.position.step:
            return False  # under way: the state is lost
        if self.start is not None:
            state.position = position_at(state, *self.start)
        elif any(optimizer.state for optimizer in state.optimizers):
            say(
                "the optimiser has a state of its own and the data starts at sample 0: if this resumes "
                "a training, call ctx.start_at(epoch=..., step=...) or use ctx.checkpoint"
            )
        return self.start is not None

    def _load(self, state: TrainingState) -> bool:
        if self.checkpoints is None:
            return False
        self.checkpoints.take()
        try:
            found = self.checkpoints.latest(state.signature())
        except BadCheckpointError:
            self.checkpoints.release()
            raise
        self._tell_folder(self.checkpoints.where)
        if found is not None:
            state.restore(opened(found[1], self.checkpoints.source, state))
        return found is not None

    def release(self) -> None:
        """Let another writer have the folder."""
        if self.checkpoints is not None:
            self.checkpoints.release()

    def _term(self) -> WriterTerm:
        """Return what changes when members may have been given up. On one machine nobody is cut off,
        and the lock of the folder tells writers apart."""
        crew = self.engine.crew if self.engine else None
        if crew is None or len({member.address.rpartition(":")[0] for member in crew.plan.members}) < 2:
            return WriterTerm()
        return self._spanning_term()

    def _spanning_term(self) -> WriterTerm:
        crew = self.engine.crew if self.engine else None
        return WriterTerm() if crew is None else WriterTerm(crew.formation, plan_name(crew.plan))

    def _heard(self) -> bool:
        """Whether the coordinator has heard of the current formation."""
        return self.engine is None or self.engine.link.flush(HEARD)

    def _tell_saved(self, step: int, path: str, seconds: float) -> None:
        """Report a checkpoint (its own thread)."""
        if self.engine is not None:
            self.engine.link.send(Saved(self._settings.task, step, path, seconds))

    def _tell_folder(self, where: str) -> None:
        """Say where checkpoints are, unless the user has said so."""
        own = self._settings.checkpoint
        if (own and where.startswith(f"{own.rstrip('/')}/")) or is_url(where):
            say(f"checkpoints are written to {where}")
        if own:
            leave_link(where, own)


def position_at(state: TrainingState, epoch: int, step: int) -> Position:
    """Return the position this many steps after the beginning of an epoch."""
    feed, position = state.feed, Position()
    assert feed is not None
    if feed.value() is not None:
        raise BadTrainingError(
            "start_at() needs a dataset with len() and dataset[i]: a stream has no position to start at"
        )
    while position.epoch < epoch:
        position = feed.after(position, (), ())
    for _ in range(step):
        position = feed.after(position, (), ())
    return position
