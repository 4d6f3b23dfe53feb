"""A free batch stays within its limits and finds back to the best goodput, whatever the noise said."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.job import Job, Need, Role, RoleSpec
from muster.perf.learnt.batches import BatchRange
from muster.perf.learnt.held import Held
from muster.perf.learnt.learner import Learner, StepReport
from muster.runtime.data.limits import BatchLimits
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
