"""One member's part in each step of an elastic training.

begin     pick this task's samples; open the donor's window
sum       sum gradients and ballots; lost members show here
update    close the window, step the optimiser
commit    advance; apply what the ballots say: shares, requests
turn      before the next step: save if due, switch to a plan that all have built
redo      after a failure: regroup the survivors, split the step again and redo it

A step has one or more *phases*, each of some sums and the update that uses them: a GAN has two. A
redone step skips the phases that were applied, so that nothing is applied twice.
"""

import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import reduce
from math import isfinite
from operator import or_

import torch
from torch import nn

from muster.runtime.comm.awaited import start_awaited
from muster.runtime.comm.hops import HostConnections, hops_of
from muster.runtime.data.feed import Drawn, Feed, StepPart
from muster.runtime.data.fingerprint import TOLERANCE
from muster.runtime.data.samples import Position
from muster.runtime.errors import BadTrainingError, BrokenGroupError
from muster.runtime.members.ballot import NOTHING, SAVE, STOP, Ours, Vote, fill, read, unused
from muster.runtime.members.crew import Crew
from muster.runtime.members.membership import LEAST_PATIENCE, Membership
from muster.runtime.members.regroup import CurrentPlans
from muster.runtime.settings import TaskSettings
from muster.runtime.state.agreement import Agreement
from muster.runtime.state.checkpoint import Checkpoints
from muster.runtime.state.hyper import HyperKeeper
from muster.runtime.state.state import Packed, TrainingState
from muster.runtime.step.averages import RunningAverages
from muster.runtime.step.batch_choice import BatchChoice
from muster.runtime.step.buckets import Buckets
from muster.runtime.step.buffers import BufferKeeper
from muster.runtime.step.noise import NoiseProbe
from muster.runtime.step.stopwatch import StepTiming, Stopwatch
from muster.wire.tasks.messages import StepDone, Straggling, Transferred

TURNS = 1 << 10
"""More sums than any phase has."""


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
        self.is_due: Callable[[int], bool] = lambda _: False
        """Whether a checkpoint belongs after a step."""
        self.on_given: Callable[[], None] = lambda: None
        """Called by the primary when another ending was given."""
        self._sample_seconds = settings.sample_seconds if device.type == "cpu" else 0.0
        self._reported: tuple[int, float] = (0, 0.0)
        """Formation and time of the last reported step."""
        self._hops: tuple[int, HostConnections] | None = None
        """Formation and its connections to other hosts."""
        self.part = StepPart(0, 0, feed.batch)
        self.timing = StepTiming()
        self._votes: tuple[Vote, ...] = ()
        self._step = 0
        """The step that was begun last."""
        self.void = False
        """The current step failed and is redone."""
        self._broken = False
        """It failed because a member is lost."""
        self._phase = self._done = 0
        """The phase of the step that the user's loop is at; those applied before it was redone."""
        self.sums = 0
        """Sums of the step so far."""
        self._losses = 0.0
        """Sum of the losses of the phase under way."""
        self.skipping = False
        """A member wants no update in this phase."""
        self._relaid = False
        """All members train something else from now on."""
        self.exchanged = False
        """Workers exchanged tensors since the last sum: each must do its backward pass."""
        self._buffers, self._hyper = BufferKeeper(state.models), HyperKeeper(state)
        self.on_commit: Callable[[Position, float], None] = lambda *_: None
        """Called with a step's position and sum of losses."""
        self.on_turn: Callable[[], None] = lambda: None
        """Called before members change, once after each step that counts."""
        self._turning = False
        """A step counts, and `turn` has not come yet."""
        self.whole = True
        """Whether each worker has the whole model."""
        self.probe, self._choice = NoiseProbe(), BatchChoice(self.batching.limits)
        self._averages = RunningAverages(state.models, self.batching.limits.own)

    def begin(self) -> StepPart:
        """Begin a step; return this task's samples."""
        crew, position = self._crew(), self.state.position
        self.void, self._broken = position.step < self._dry_step, False
        self._step = position.step + 1
        self._void_step, self._dry_step = self._step if self.void else 0, 0
        self._votes, self._phase, self.sums, self._losses = (), 0, 0, 0.0
        self._done, self.skipping, self.exchanged = self.state.phase, False, False
        self._buffers.begin()
        self.stopwatch.begin()
        self.timing = StepTiming(begun=time.monotonic())
        self._settle(position.step)
        free, alone = self.batching.limits.free and self.works, crew.size == 1
        self.probe.begin(self._step, free, alone)
        if self.holds:
            self.donor.open(self.state.updates)
            self.part = self.feed.part(position, self._agreed.shares, crew.rank, self.settings.task)
        else:
            self.part = StepPart(0, 0, self.feed.total(position))
        if free:
            self._averages.begin(self.part.total)
        if self.void:
            return self.part
        try:
            self.owned.begin(crew)
            crew.communicator.begin()
        except BrokenGroupError:
            self.lose()
        self._begin_buckets(crew)
        return self.part

    def _settle(self, step: int) -> None:
        """Take over what a joiner gets at the beginning of a step; begin the checks of this one."""
        if self._joiner is not None:
            try:
                self._joiner.settle(self.state.updates)
            except BrokenGroupError:
                self.lose()
        self.state.numbers.begin(step)
        self._hyper.begin(step)
        self.agreement.begin(step, self.holds and self.works, self.updates)

    def gathered(self) -> AbstractContextManager[None]:
        """Let all workers use the model beside the step; a collective if none has the whole."""
        return nullcontext()

    def rounds(self, own: int) -> int:
        """Return how many micro-batches a sum has, if this task has some of its own."""
        return own

    def begin_sum(self, chosen: Collection[int] | None = None) -> None:
        """Begin a sum of the step; `chosen`: parameters, None: all."""
        crew = self._crew()
        if self.sums and crew.size > 1:
            self._check_sums(crew)
            try:
                crew.communicator.begin()
            except BrokenGroupError:
                self.lose()
        if self.sums or chosen is not None:
            self._begin_buckets(crew, chosen)

    def _begin_buckets(self, crew: Crew, chosen: Collection[int] | None = None) -> None:
        put = (lambda bucket: self._put(crew, bucket)) if crew.size > 1 else None
        kind = crew.choice.kind
        whole = kind not in ("ring", "nccl")  # owners expect every bucket
        self.buckets.begin(put, kind == "nccl", chosen, keep=self.sums > 0, whole=whole)

    def _check_sums(self, crew: Crew) -> None:
        if crew.workers < crew.size or crew.holdings:
            raise BadTrainingError(
                "ctx.backward() was called again in a step, which servers and updating owners cannot "
                'follow: use owners="reduce" and no servers, or add up the losses'
            )

    @property
    def is_applied(self) -> bool:
        """Whether the current phase was applied before the step was redone."""
        return self._phase < self._done

    def next_phase(self) -> None:
        """Begin the phase after an update."""
        self._phase += 1
        self.skipping = False
        self.stopwatch.lap()
        if self.holds and self._phase > self._done and not self.void:
            self.donor.open(self.state.updates, between=True)

    def apply(self) -> None:
        """Note that the current phase is applied."""
        self.state.phase += 1
        self.state.updates += 1
        self.state.partial += self._losses
        self._losses = 0.0

    def _put(self, crew: Crew, bucket: int) -> None:
        if not self.timing.handed:
            self.timing.handed = time.monotonic()
        if self.probe.active and not self.sums:
            self.probe.take(self.buckets.flats[bucket])
        crew.communicator.put(bucket)

    def keep_pace(self) -> None:
        """Sleep until an emulated device of fixed speed would be done."""
        ready = self.timing.begun + self.part.count * self._sample_seconds
        left = ready - time.monotonic()
        if left > 0 and not self.void:
            time.sleep(left)

    def sum(self, ours: Ours = NOTHING) -> None:
        """Sum the gradients and this task's vote; set `void` if that fails."""
        try:
            if not self.void:
                self._sum(self._crew(), ours)
        except BrokenGroupError:
            self.lose()
        self.timing.summed = time.monotonic()

    def _sum(self, crew: Crew, ours: Ours) -> None:
        alone = crew.size == 1
        if not alone and self.works:
            if self.part.count and not (ours.failed or ours.skip):
                self.buckets.finish()
            else:
                self.buckets.withhold()
        self.timing.forward, self.timing.backward = self.stopwatch.read()
        self._step_seconds = self.timing.forward + self.timing.backward
        ours = replace(ours, failed=ours.failed or self.buckets.torn)
        fill(crew.ballot, crew.rank, crew.size, self._vote(ours), self.buckets.used)
        if not alone:
            crew.communicator.put(len(self.buckets.host))
            crew.communicator.finish()
        self._votes = read(crew.ballot, crew.size)
        self._check_turns(crew)
        self._measure_noise(crew)
        self.agreement.check(self._votes, crew, self.holds and self.works)
        self.sums, self.exchanged = self.sums + 1, False
        if crew.holdings:
            self.owned.vote(crew, unused(crew.ballot, crew.size))
        self._judge(crew)

    def _measure_noise(self, crew: Crew) -> None:
        """Adopt the noise that the first worker knows; it adds what this step shows."""
        if not self.batching.limits.free:
            return
        first = next((rank for rank, vote in enumerate(self._votes) if vote.samples), None)
        if first is None:
            return
        self.batching.adopt(self._votes[first])
        if self.probe.active and not self.sums and first == crew.rank:
            self.probe.conclude(self.batching.found, self._votes, self.buckets.gradients())

    def _check_turns(self, crew: Crew) -> None:
        """Raise if members are at different sums: what was summed is no gradient."""
        for task, vote in zip(crew.tasks, self._votes, strict=True):
            if vote.turn != self._votes[0].turn:
                raise BadTrainingError(
                    f"{task} is at another point of its step than {crew.tasks[0]}: every worker must "
                    "call ctx.backward() and optimizer.step() equally often, whatever its samples"
                )

    def _judge(self, crew: Crew) -> None:
        """Apply what the ballots say of the step: not finite, void, or good."""
        self._check_drawn(crew)
        losses = sum(vote.loss for vote in self._votes)
        if not isfinite(losses) and not any(vote.scaled for vote in self._votes):
            raise BadTrainingError(
                f"the loss of step {self.state.position.step + 1} is {losses}: nothing was applied; "
                "a smaller learning rate or gradient clipping may help"
            )
        samples, weight = (sum(getattr(vote, n) for vote in self._votes) for n in ("samples", "weight"))
        if any(vote.failed for vote in self._votes):
            self.void = True
            self._check_layouts(crew)
            self._learn_shares(crew, applied=False)
        elif not samples:
            self.void = True  # shards without samples: nothing to apply, but they are done
            self._move_on(crew)
        elif any(vote.skip for vote in self._votes):
            self.skipping = True
            self.buckets.settle()
        else:
            self._share_out(crew, samples, losses, weight)

    def _check_drawn(self, crew: Crew) -> None:
        """Refuse samples that workers drew differently (a joiner fails alone), or a part of them."""
        votes = [(t, v) for t, v in zip(crew.tasks, self._votes, strict=True) if v.drawn]
        first, right = next(((t, v) for t, v in votes if v.samples), ("", Vote()))
        for task, vote in votes if first else ():
            same = vote.drawn == right.drawn and abs(vote.sketch - right.sketch) <= TOLERANCE
            if not same and (vote.samples or task == self.settings.task):
                raise BadTrainingError(
                    f"{task} drew other samples than {first} for step {self.state.position.step + 1}: "
                    "sampler and seed must be the same on every worker, and a sampler may draw from "
                    "the generators of torch, random and numpy and from its own `generator` alone"
                )
        taken = sum(vote.samples for vote in self._votes)
        if first and taken != self.part.total and not any(vote.failed for vote in self._votes):
            raise BadTrainingError(
                f"the workers took {taken:g} of the {self.part.total} samples of step "
                f"{self.state.position.step + 1}: they disagree on their shares, a fault of Muster's"
            )

    @property
    def is_changed(self) -> bool:
        """Whether something else is trained than the buckets are made for."""
        return type(self.buckets) is Buckets and self.state.is_changed()

    def _check_layouts(self, crew: Crew) -> None:
        """Have the buckets laid out again if all workers train something else; raise if some do."""
        layouts = [vote.layout for vote in self._votes[: crew.workers]]
        if len(set(layouts)) > 1:
            other = next(rank for rank, layout in enumerate(layouts) if layout != layouts[0])
            raise BadTrainingError(
                f"{crew.tasks[other]} trains other parameters than {crew.tasks[0]} from step "
                f"{self.state.position.step + 1} on: unfreeze and add groups on every worker, in the "
                "same step"
            )
        self._relaid = bool(layouts[0])

    def _lay_out_again(self) -> None:
        """Sum what is trained now; whoever gets the state begins again, since its order has changed."""
        crew = self._crew()
        self._relaid = False
        self.state.find_trained()
        self.state.changes += 1
        self._renew_buckets(crew)
        if self._joiner is not None:
            self._joiner.close()
            self._joiner = None
            self._take_sides(crew, [rank for rank, able in enumerate(self._agreed.able) if able])

    def _share_out(self, crew: Crew, samples: float, losses: float, weight: float) -> None:
        """Give everyone the gradient of the mean over the whole batch."""
        if not weight:
            raise BadTrainingError(
                f"the weights of step {self.state.position.step + 1} add up to 0: nothing was applied"
            )
        # The last loss stands in for one that a scaler found to overflow.
        self._losses += losses / weight * samples if isfinite(losses) else self.state.loss * samples
        if crew.holdings:
            self.buckets.idle()
        elif self.works and crew.size > 1:
            self.buckets.spread(unused(crew.ballot, crew.size), self.part.total / weight)
        elif self.works:
            self.buckets.settle(self.part.total / weight)

    def _vote(self, ours: Ours) -> Vote:
        complete = self._joiner.complete if self._joiner is not None else None
        # A joiner holds the whole state once this update is applied.
        joins = complete is not None and complete <= self.state.updates
        line = self._gauge.line() or (0.0, 0.0)
        drawn = self.feed.drawn(self.state.position) if self.works else Drawn()
        return Vote(
            samples=0 if ours.failed else self.part.count,
            loss=0.0 if ours.failed else ours.loss,
            built=self._pending.built(),
            able=float(self.works and (self.holds or joins)),
            cap=self.cap,
            fixed=line[0],
            per_sample=line[1],
            noise=self._gauge.noise(),
            request=self._request | self._due(),
            failed=float(ours.failed),
            finished=self.part.finished,
            far=self.part.far,
            weight=0.0 if ours.failed else ours.weight,
            turn=self.state.updates * TURNS + self.sums,
            skip=float(ours.skip),
            scaled=float(ours.scaled),
            layout=float(ours.layout),
            drawn=drawn.checksum,
            sketch=drawn.sketch,
            square=self.probe.own() if self.part.count and not ours.failed else 0.0,
            **self.batching.vote(),
            **self.state.told.row(),
            **self.agreement.opinion(),
        )

    def clip(self, max_norm: float) -> float:
        """Scale the gradients down to a norm; return their norm before."""
        return float(nn.utils.clip_grad_norm_(self.buckets.parameters, max_norm))

    def learn(self) -> None:
        """Take over the hyper-parameters of the coming update, if this is a joiner."""
        if self._joiner is not None and not self.void:
            try:
                self._joiner.learn(self.state.updates + 1)
            except BrokenGroupError:
                self.lose()

    def before_update(self) -> list[int]:
        """Prepare for the update; return parameters that a joiner must skip."""
        if self.holds:
            self.donor.shut()
        if self._joiner is None:
            return []
        try:
            return self._joiner.before_update(self.state.updates + 1)
        except BrokenGroupError:
            self.lose()  # the others notice, and all recover
            return list(range(len(self.buckets.parameters)))

    def reached(self) -> set[int]:
        """Return the parameters with a gradient in the last sum."""
        crew, every = self._crew(), range(len(self.buckets.parameters))
        if crew.size > 1:
            return set(every) - set(unused(crew.ballot, crew.size))
        return {index for index in every if self.buckets.parameters[index].grad is not None}

    def commit(self) -> None:
        """Finish the step and apply what the ballots agreed on."""
        crew, before = self._crew(), self.state.position
        if not self.works:
            self.apply()
        mine, losses = self._votes[crew.rank], self.state.partial
        self.state.phase, self.state.partial, self.buckets.watching = 0, 0.0, False
        self._averages.end()
        if self._joiner is not None and mine.able:
            self._joiner.close()
            self._joiner, self.holds = None, True
        self.state.losses += losses
        self.is_new = self.is_new and not mine.samples
        self._report(crew, mine, losses)
        if self._before is not None:
            # All have entered this formation: nobody waits in the previous one. Closing takes 10 ms.
            start_awaited(self._before.close, "muster-close")
            self._before = None
            self._stores.forget(crew.formation)
            self._meeting.stand(CurrentPlans(crew.plan))
            self._tell_now()
        self._move_on(crew)
        self._change_batch(crew)
        self._note_stragglers(crew)
        self.requested = reduce(or_, (int(vote.request) for vote in self._votes))
        self._request &= ~int(mine.request)
        self._turning = True
        self._take_plan(self._votes)
        self._follow_ending()
        self.on_commit(before, losses)

    def _follow_ending(self) -> None:
        """Adopt what was ordered last, from the ballots of a step; the same on every member."""
        state = self.state
        given = state.given.newest(self._votes)
        if given == state.given:
            return
        # Flat by the previous rule is not flat by this one.
        state.given, state.trend = given, replace(state.trend, flat=0)
        if self.primary:
            self.on_given()

    def _change_batch(self, crew: Crew) -> None:
        """Take the batch that members wish for, and share it out; the same on every member."""
        self.batching.follow(self._votes)
        self._agreed.batch = self.batching.wanted
        self._learn_shares(crew)
        if self.primary and not self.batching.last.order and self.batching.limits.free:
            best = self._choice.best(self.batching.noise.samples)
            if best is not None:
                self.batching.choose(best)

    def _learn_shares(self, crew: Crew, applied: bool = True) -> None:
        self._agreed.learn(self._votes[: crew.workers], applied)
        if self._agreed.batch < self.batching.wanted:
            self._choice.limit(self._agreed.batch)
        self.feed.use(self._agreed.batch)

    def turn(self) -> None:
        """Between two steps: save if due, then change members if all are ready to."""
        if not self._turning:
            return
        try:
            self.on_turn()
        except BrokenGroupError:  # a checkpoint involves all members if owners update
            self.mend()
        else:
            self._turning = False
            self._switch(self._crew())

    def _due(self) -> int:
        """Ask all for a checkpoint after this step, if the primary's script wants one."""
        return SAVE if self.primary and self.is_due(self.state.position.step + 1) else 0

    def check_whole(self) -> None:
        """Raise unless all members have the same state; a collective, between two steps."""
        self.agreement.check_whole(self._crew(), self.holds and self.works)

    def gather(self, wanted: bool) -> Packed | None:
        """Collect the optimiser's state from updating owners for the primary; all others wait."""
        return self.owned.gather(self._crew(), wanted and self.primary) if self.updates else None

    saves_parts = False
    """Whether each member writes a part of a checkpoint."""

    def save_parts(self, checkpoints: Checkpoints | None, wait: bool) -> None:
        """Write this member's part of a checkpoint; `wait`: until it is whole."""

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

    def mend(self, step_open: bool = False) -> None:
        """Regroup the survivors between two sums; a step that is open becomes void."""
        if self._turning:  # some may have come to the turn, and others not
            self._turning, self._request = False, self._request | SAVE
        self._void_step = self._step if step_open else 0
        self.lose()
        self._recover_if_broken()
        self.void = step_open

    def redo(self) -> None:
        """Recover from a void step and go back to where it began."""
        if self.state.position.step + 1 >= self._step:  # else a checkpoint was loaded meanwhile
            self._buffers.redo()
            self.state.numbers.redo()
            self._hyper.redo()
        self._void_step = 0
        self._recover_if_broken()

    def _recover_if_broken(self) -> None:
        if not self._broken:
            # All are here: samples did not fit, and the caps are known now; or others are trained.
            if self._relaid:
                self._lay_out_again()
            return
        self._broken = False
        began = time.monotonic()
        before = set(self.crew.tasks if self.crew else ())
        self.buckets.abandon()
        self._recover()
        assert self.crew is not None
        self._tell_change("failure", began, tuple(sorted(before - set(self.crew.tasks))))

    def ask_to_stop(self) -> None:
        """End the training of all workers after the next sum."""
        self._request |= STOP

    def lose(self) -> None:
        """Drop the broken group at once, so that nobody waits in it."""
        self.void = self._broken = True
        self._crew().close()

    def _report(self, crew: Crew, mine: Vote, losses: float) -> None:
        timing, task = self.timing, self.settings.task
        if mine.samples:
            self._gauge.note(int(mine.samples), timing.forward + timing.backward)
        total = sum(vote.samples for vote in self._votes)
        ended = timing.begun + timing.forward + timing.backward
        position = self.state.position
        formation, reported = self._reported
        self._reported = crew.formation, time.monotonic()
        loss = losses / total
        wait = max(0.0, timing.summed - ended)
        sync = max(0.0, timing.summed - timing.handed) if timing.handed else 0.0
        seconds = self._reported[1] - reported if formation == crew.formation else 0.0
        where = (task, crew.formation, position.step + 1, position.epoch)
        times = (timing.forward, timing.backward, wait, sync, seconds)
        self._choice.note(crew.formation, self.feed.batch, int(total), seconds)
        free = self.batching.report(position.seen, int(total), noise=self.primary)
        self.link.send(StepDone(*where, int(mine.samples), loss, *times, self.holds, **free))
        self._report_hops(crew)

    def _report_hops(self, crew: Crew) -> None:
        """Tell what has passed to other hosts; the first step of a formation is not counted."""
        if self._hops is None or self._hops[0] != crew.formation:
            self._hops = crew.formation, hops_of(crew.plan.members, crew.rank)
            return
        for hop in self._hops[1].step():
            said = (hop.peer, hop.bytes, hop.seconds, hop.latency)
            self.link.send(Transferred(self.settings.task, crew.formation, *said))
