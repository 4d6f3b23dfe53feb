"""A free batch stays within its limits and finds back to the best goodput, whatever the noise said; and
all members take the same one, every sample once, whoever dies and joins."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.job import Job, Need, Role, RoleSpec
from muster.perf.learnt.batches import BatchRange
from muster.perf.learnt.held import Held
from muster.perf.learnt.learner import Learner
from muster.perf.learnt.step_report import StepReport
from muster.runtime.data.limits import BatchLimits
from muster.runtime.data.samples import Order, Position, cut
from muster.runtime.members.ballot import MemberStatus, Vote
from muster.runtime.state.batching import Batching, BatchWish
from muster.runtime.step.batch_choice import BatchChoice
from muster.split.goodput import gain

EVERY = settings(max_examples=60, deadline=None, derandomize=True, database=None)
OWN, LARGEST = 64, 4096
LIES, CYCLES = 6, 40
"""Measurements that lie, and those until the batch must be good again."""
Truth = Callable[[int], float]
"""s of a step by batch."""

fixed = st.floats(0.01, 2.0)
per_sample = st.floats(1e-5, 0.01)
noises = st.floats(30.0, 30_000.0)
lies = st.sampled_from([0.1, 0.3, 3.0, 10.0])


def goodput(noise: float, batch: int, seconds: Truth) -> float:
    return gain(noise, OWN, batch) / seconds(batch)


def best(noise: float, seconds: Truth) -> float:
    return max(goodput(noise, batch, seconds) for batch in range(OWN, LARGEST + 1, 8))


@EVERY
@given(fixed, per_sample, noises, lies)
def test_the_scheduler_finds_back_after_noise_that_lied(
    a: float, c: float, noise: float, lie: float
) -> None:
    learner = Learner({"gpu": 4}, free_batch=True, steady=0.05)
    learner.allow("app", BatchRange(OWN, LARGEST, 1, LARGEST, live=True))
    role = RoleSpec(Role.WORKER, Need(devices=1), 2, 2, 2)
    job = Job("job", roles=(role,), application="app", batch=OWN, work=1e9, number=1)

    def seconds(batch: int) -> float:
        return a + c * batch / 2

    held, done = Held("gpu", (2,)), 0.0
    for cycle in range(LIES + CYCLES):
        batch = held.batch or OWN
        assert OWN <= batch <= LARGEST
        told = noise * lie if cycle < LIES else noise
        learner.watch(job, held, StepReport(seconds(batch), a / 2, noise=told), done)
        done += 10.0
        held = Held("gpu", (2,), learner.outlook(job, held, done).speed.batch("gpu", 2))
    assert goodput(noise, held.batch or OWN, seconds) >= 0.9 * best(noise, seconds)


@EVERY
@given(fixed, per_sample, noises, lies)
def test_a_training_by_itself_finds_back_after_noise_that_lied(
    a: float, c: float, noise: float, lie: float
) -> None:
    def seconds(batch: int) -> float:
        return a + c * batch

    choice, batch = BatchChoice(BatchLimits(OWN, LARGEST)), OWN
    for step in range(8 * (LIES + CYCLES)):
        assert OWN <= batch <= LARGEST
        choice.note(1, batch, batch, seconds(batch))
        batch = choice.best(noise * lie if step < 8 * LIES else noise) or batch
    assert goodput(noise, batch, seconds) >= 0.9 * best(noise, seconds)


COUNT, EPOCHS, MOST = 97, 3, 4
FEW = BatchLimits(5, 40)


class Member:
    """What one worker knows of batch and samples."""

    def __init__(self, donor: "Member | None" = None) -> None:
        self.batching, self.order = Batching(FEW), Order(COUNT, FEW.own)
        if donor is not None:
            self.batching.enter(MemberStatus(**donor.batching.row()))
            self.order.batch = self.batching.wanted

    def commit(self, position: Position, votes: list[Vote]) -> Position:
        """Advance as after a step."""
        after = self.order.after(position)
        self.batching.follow(votes)
        self.order.batch = self.batching.wanted
        return after


@dataclass(frozen=True, slots=True)
class Event:
    """What happens before and in an attempt at a step."""

    told: int
    """A batch that the coordinator orders; 0: none. Some members hear of it later."""
    chosen: int
    """A batch that a member chooses by itself; 0: none."""
    rank: int
    """Who hears, chooses and dies, among those there are."""
    joins: bool
    dies: bool
    """In the step, which is lost for all."""


sizes = st.one_of(st.just(0), st.integers(1, 60))
events = st.builds(Event, sizes, sizes, st.integers(0, 9), st.booleans(), st.booleans())


@EVERY
@given(st.lists(events, min_size=1, max_size=60))
def test_members_agree_on_the_batch_and_every_sample_is_taken_once_whoever_dies(
    history: list[Event],
) -> None:
    members, position, orders = [Member()], Position(), 0
    seen: Counter[tuple[int, int]] = Counter()
    turn = 0
    while position.epoch < EPOCHS:
        quiet = turn >= len(history)  # so that it ends
        event = Event(0, 0, 0, False, False) if quiet else history[turn]
        turn += 1
        if event.joins and len(members) < MOST:
            members.append(Member(members[event.rank % len(members)]))
        one = members[event.rank % len(members)]
        if event.told:
            orders += 1
            one.batching.wish = BatchWish(orders, 0, event.told)
        elif event.chosen and not one.batching.wish.order:
            one.batching.choose(event.chosen)
        (size,) = {len(member.order.ids(position)) for member in members}
        assert size <= FEW.largest
        taken = [
            member.order.ids(position)[first : first + count].tolist()
            for member, (first, count) in zip(members, cut(size, [1] * len(members)), strict=True)
        ]
        if event.dies and len(members) > 1:
            members.remove(one)
            continue
        votes = [Vote(samples=1.0, **member.batching.vote()) for member in members]
        seen.update((position.epoch, sample) for part in taken for sample in part)
        (position,) = {member.commit(position, votes) for member in members}
    assert seen == Counter({(epoch, sample): 1 for epoch in range(EPOCHS) for sample in range(COUNT)})
