"""One member's part in each step of an elastic training.

begin     pick this task's samples; open the donor's window
sum       sum gradients and ballots; lost members show here
update    close the window, step the optimiser
commit    advance; apply what the ballots say: shares, requests, the switch to a built plan
redo      after a failure: regroup the survivors, split the step again and redo it
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from math import isfinite
from operator import or_

import torch

from muster.runtime.comm.base import Transfer
from muster.runtime.data.feed import Feed, StepPart
from muster.runtime.data.samples import Position
from muster.runtime.errors import BadTrainingError, BrokenGroupError
from muster.runtime.members.ballot import SAVE, Vote, fill, read, unused
from muster.runtime.members.crew import Crew
from muster.runtime.members.membership import LEAST_PATIENCE, Membership
from muster.runtime.members.regroup import CurrentPlans
from muster.runtime.settings import TaskSettings
from muster.runtime.state.agreement import Agreement
from muster.runtime.state.state import Packed, TrainingState
from muster.runtime.step.buckets import Buckets
from muster.runtime.step.stopwatch import Stopwatch
from muster.wire.messages import StepDone, Straggling, Transferred


@dataclass
class StepTiming:
    """Times of the current step, in s."""

    begun: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    handed: float = 0.0
    summed: float = 0.0
    transfers: list[Transfer] = field(default_factory=list)


class StepEngine(Membership):
    """A member that does steps: votes, agrees, and advances in the data."""

    def __init__(
        self,
        settings: TaskSettings,
        state: TrainingState,
        buckets: Buckets,
        feed: Feed,
        device: torch.device,
        deadline: float,
    ) -> None:
        super().__init__(settings, state, buckets, feed, deadline)
        self.device, self.stopwatch = device, Stopwatch(device)
        self.agreement = Agreement(state, device)
        self._sample_seconds = settings.sample_seconds if device.type == "cpu" else 0.0
        self._reported: tuple[int, float] = (0, 0.0)
        """Formation and time of the last reported step."""
        self.part = StepPart(0, 0, feed.batch)
        self.timing = StepTiming()
        self._votes: tuple[Vote, ...] = ()
        self.void = False
        """The current step failed and is redone."""
        self._broken = False
        """It failed because a member is lost."""
        self.on_commit: Callable[[Position, float], None] = lambda *_: None
        """Called with a step's position and sum of losses, before members change."""

    def begin(self) -> StepPart:
        """Begin a step; return this task's samples."""
        crew, position = self._crew(), self.state.position
        self.void = self._broken = False
        self._votes = ()
        self.stopwatch.begin()
        self.timing = StepTiming(begun=time.monotonic())
        self._settle(position.step)
        if self.holds:
            self.donor.open(position.step)
            self.part = self.feed.part(position, self._agreed.shares, crew.rank, self.settings.task)
        else:
            self.part = StepPart(0, 0, self.feed.total(position))
        try:
            self.owned.begin(crew)
            crew.communicator.begin()
        except BrokenGroupError:
            self.lose()
        if crew.size > 1:
            on_device = crew.choice.kind == "nccl"
            self.buckets.begin(lambda bucket: self._put(crew, bucket), on_device)
        return self.part

    def _settle(self, step: int) -> None:
        """Take over what a joiner gets at the beginning of a step; begin the checks of this one."""
        if self._joiner is not None:
            try:
                self._joiner.settle(step)
            except BrokenGroupError:
                self.lose()
        self.state.numbers.begin(step)
        self.agreement.begin(step, self.holds and self.works, self.updates)

    def _put(self, crew: Crew, bucket: int) -> None:
        if not self.timing.handed:
            self.timing.handed = time.monotonic()
        crew.communicator.put(bucket)

    def keep_pace(self) -> None:
        """Sleep until an emulated device of fixed speed would be done."""
        ready = self.timing.begun + self.part.count * self._sample_seconds
        left = ready - time.monotonic()
        if left > 0 and not self.void:
            time.sleep(left)

    def sum(self, loss: float, failed: bool = False) -> None:
        """Sum the gradients and this task's vote; set `void` if that fails."""
        try:
            if not self.void:
                self._sum(self._crew(), loss, failed)
        except BrokenGroupError:
            self.lose()
        self.timing.summed = time.monotonic()

    def _sum(self, crew: Crew, loss: float, failed: bool) -> None:
        alone = crew.size == 1
        if not alone and self.works:
            if self.part.count and not failed:
                self.buckets.finish()
            else:
                self.buckets.withhold()
        self.timing.forward, self.timing.backward = self.stopwatch.read()
        self._step_seconds = self.timing.forward + self.timing.backward
        fill(crew.ballot, crew.rank, crew.size, self._vote(loss, failed), self.buckets.used)
        if not alone:
            crew.communicator.put(len(self.buckets.host))
            self.timing.transfers = crew.communicator.finish()
        self._votes = read(crew.ballot, crew.size)
        self.agreement.check(self._votes, crew, self.holds and self.works)
        if crew.holdings:
            self.owned.vote(crew, unused(crew.ballot, crew.size))
        self._judge(crew)

    def _judge(self, crew: Crew) -> None:
        """Apply what the ballots say of the step: not finite, void, or good."""
        losses = sum(vote.loss for vote in self._votes)
        if not isfinite(losses):
            raise BadTrainingError(
                f"the loss of step {self.state.position.step + 1} is {losses}: nothing was applied; "
                "a smaller learning rate or gradient clipping may help"
            )
        samples = sum(vote.samples for vote in self._votes)
        if any(vote.failed for vote in self._votes):
            self.void = True
            self._agreed.learn(self._votes[: crew.workers])
        elif not samples:
            self.void = True  # shards without samples: nothing to apply, but they are done
            self._move_on(crew)
        elif crew.holdings:
            self.buckets.idle()
        elif self.works:
            if crew.size > 1:
                self.buckets.spread(unused(crew.ballot, crew.size))
            if samples != self.part.total:
                self.buckets.scale(self.part.total / samples)

    def _vote(self, loss: float, failed: bool) -> Vote:
        complete = self._joiner.complete if self._joiner is not None else None
        # A joiner holds the whole state once this step is applied.
        joins = complete is not None and complete <= self.state.position.step
        line = self._gauge.line() or (0.0, 0.0)
        return Vote(
            samples=0 if failed else self.part.count,
            loss=0.0 if failed else loss,
            built=self._pending.built(),
            able=float(self.works and (self.holds or joins)),
            cap=self.cap,
            fixed=line[0],
            per_sample=line[1],
            noise=self._gauge.noise(),
            request=self._request,
            failed=float(failed),
            finished=self.part.finished,
            far=self.part.far,
            **self.agreement.opinion(),
        )

    def before_update(self) -> list[int]:
        """Prepare for the update; return parameters that a joiner must skip."""
        if self.holds:
            self.donor.shut()
        if self._joiner is None:
            return []
        try:
            return self._joiner.before_update(self.state.position.step + 1)
        except BrokenGroupError:
            self.lose()  # the others notice, and all recover
            return list(range(len(self.buckets.parameters)))

    def unused(self) -> list[int]:
        """Return the parameters without a gradient in this step."""
        if self.updates:
            return unused(self._crew().ballot, self._crew().size)
        return [i for i, parameter in enumerate(self.buckets.parameters) if parameter.grad is None]

    def commit(self) -> None:
        """Finish the step and apply what the ballots agreed on."""
        crew, before = self._crew(), self.state.position
        mine, losses = self._votes[crew.rank], sum(vote.loss for vote in self._votes)
        if self._joiner is not None and mine.able:
            self._joiner.close()
            self._joiner, self.holds = None, True
        self.state.losses += losses
        self._report(crew, mine)
        if self._before is not None:
            # All have entered this formation: nobody waits in the previous one. Closing takes 10 ms.
            threading.Thread(target=self._before.close, name="muster-close", daemon=True).start()
            self._before = None
            self._stores.forget(crew.formation)
            self._meeting.stand(CurrentPlans(crew.plan))
        self._move_on(crew)
        self._agreed.learn(self._votes[: crew.workers])
        self._note_stragglers(crew)
        self.requested = reduce(or_, (int(vote.request) for vote in self._votes))
        if self.requested:
            self._request = 0
        try:
            self.on_commit(before, losses)
        except BrokenGroupError:  # a checkpoint involves all members if owners update
            self._request |= SAVE
            self.lose()
            self.redo()
        else:
            self._switch(crew, self._votes)

    def gather(self, wanted: bool) -> Packed | None:
        """Collect the optimiser's state from updating owners for the primary; all others wait."""
        return self.owned.gather(self._crew(), wanted and self.primary) if self.updates else None

    def end(self) -> None:
        """Wait until all members are done: each keeps what another may need."""
        if self.updates:
            self.owned.end(self._crew(), LEAST_PATIENCE)

    def _move_on(self, crew: Crew) -> None:
        """Advance the position, the same on every member."""
        votes = self._votes[: crew.workers]
        self.state.position = self.feed.after(self.state.position, crew.tasks, votes)

    def _note_stragglers(self, crew: Crew) -> None:
        for task, factor in self._agreed.stragglers(crew.tasks[: crew.workers]):
            if crew.rank == 0:
                step = self.state.position.step
                self.link.send(Straggling(self.settings.task, task, crew.formation, step, factor))

    def redo(self) -> None:
        """Recover from a void step and go back to where it began."""
        if not self._broken:
            return  # all are here: samples did not fit, and the caps are known now
        began = time.monotonic()
        self.state.numbers.redo()
        before = set(self.crew.tasks if self.crew else ())
        self.buckets.abandon()
        self._recover()
        assert self.crew is not None
        self._tell_change("failure", began, tuple(sorted(before - set(self.crew.tasks))))

    def lose(self) -> None:
        """Drop the broken group at once, so that nobody waits in it."""
        self.void = self._broken = True
        self._crew().close()

    def _report(self, crew: Crew, mine: Vote) -> None:
        timing, task = self.timing, self.settings.task
        if mine.samples:
            self._gauge.note(int(mine.samples), timing.forward + timing.backward)
        total = sum(vote.samples for vote in self._votes)
        ended = timing.begun + timing.forward + timing.backward
        position = self.state.position
        formation, reported = self._reported
        self._reported = crew.formation, time.monotonic()
        loss = sum(vote.loss for vote in self._votes) / total
        wait = max(0.0, timing.summed - ended)
        sync = max(0.0, timing.summed - timing.handed) if timing.handed else 0.0
        seconds = self._reported[1] - reported if formation == crew.formation else 0.0
        where = (task, crew.formation, position.step + 1, position.epoch)
        times = (timing.forward, timing.backward, wait, sync, seconds)
        self.link.send(StepDone(*where, int(mine.samples), loss, *times, self.holds))
        for sent in timing.transfers:
            self.link.send(Transferred(task, crew.formation, sent.link, sent.bytes, sent.seconds))
