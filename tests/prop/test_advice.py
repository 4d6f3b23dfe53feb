"""What a reason or a refusal advises is true: the job with that one change starts, or could."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle.cycle import Memory, decide
from muster.core.state.admit import refuse
from muster.core.why.advice import ROUNDS, Advice, AdviceQuestion, advise
from muster.model.decision import Kind
from muster.model.event import Cancelled, Reprioritised, Reshaped
from muster.model.job import Job, Locality, Need, Role, RoleSpec
from muster.model.topology import Level
from muster.model.view import JobState, Phase, View
from muster.policy.base import Policy
from muster.policy.published.fifo import Fifo
from muster.policy.registry import POLICIES
from tests.builders import GB
from tests.changes import changed
from tests.numbers import number
from tests.prop.worlds import History, clusters, histories, jobs, pool_trees
from tests.world import World

EVERY = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@given(histories())
@settings(EVERY, max_examples=8)
def test_a_job_with_the_change_that_its_reason_names_would_have_started(history: History) -> None:
    """Or by waiting differently it has let another one past, which took what it would have had.

    One that is not preemptible and allows several types may, with the change, ask for another of
    them than before, and be entitled to that one only.
    """
    for frame in history.play(history.world()):
        several = len(frame.before.cluster.device_types()) > 1
        for decision in frame.of(Kind.WAIT)[:2]:
            state = frame.before.jobs[decision.job]
            fickle = several and not state.job.preemptible and len(state.job.device_types) != 1
            if decision.reason.would_start is None or fickle:
                continue
            other = replace(state, job=changed(state.job, decision.reason.would_start))
            twin = replace(frame.before, jobs={**frame.before.jobs, state.number: other})
            again = World(twin, frame.now, frame.memory).cycle()
            assert state.job.name in again.names(Kind.START), decision.reason


def follow(asked: AdviceQuestion, advice: Advice, policy: Policy) -> tuple[World, int]:
    """A user who takes the advice: the world after that, and the number of the job."""
    state, now = asked.view.jobs[asked.job], asked.now
    world = World(asked.view, now, asked.memory, policy)
    if advice.change.field == "priority":
        world.happen(Reprioritised(state.number, int(advice.change.value), "user", now))
    elif not advice.again:
        world.happen(Reshaped(state.number, changed(state.job, advice.change).roles, now))
    else:
        new = max(asked.view.jobs) + 1
        world.happen(Cancelled(state.number, now))
        world.submit(replace(changed(state.job, advice.change), number=new))
        return world, new
    return world, state.number


def workers(world: World, job: int) -> int:
    """What a job has, or is about to have."""
    state = world.view.jobs[job]
    placed = state.target or state.placement
    return placed.count(Role.WORKER) if placed else 0


@pytest.mark.parametrize("policy", ["fifo", "muster", "tiresias", "srtf", "max-min"])
@given(history=histories())
@settings(EVERY, max_examples=2)
def test_advice_that_is_followed_gives_that_very_job_what_it_says(
    policy: str, history: History
) -> None:
    found = POLICIES[policy]
    world = history.world()
    world.policy = found
    for frame in history.play(world):
        for decision in frame.of(Kind.WAIT)[:2]:
            pools = tuple(frame.before.pools.leaves())
            asked = AdviceQuestion(frame.before, frame.now, frame.memory, decision.job, pools, 8)
            for advice in advise(found, asked):
                then, job = follow(asked, advice, found)
                had = workers(then, job)
                then.cycle()
                if not advice.at_once:
                    for _ in range(ROUNDS - 1):
                        if workers(then, job) <= had:
                            then.settle(0.0)
                assert workers(then, job) == advice.workers > had, advice


@given(histories())
@EVERY
def test_the_holders_that_a_reason_names_hold_devices(history: History) -> None:
    for frame in history.play(history.world()):
        for decision in frame.of(Kind.WAIT):
            for holder in decision.reason.holders:
                state = frame.after.jobs[number(holder.name)]
                assert 0 < holder.devices <= sum(slot.bits.bit_count() for slot in state.held())
                assert holder.pool == state.job.pool
                assert state.number != decision.job


@st.composite
def requests(draw: st.DrawFn) -> tuple[View, Job]:
    """An empty cluster, and a job that may be far too much for it."""
    there = draw(clusters())
    pools = draw(pool_trees(there))
    wild: st.SearchStrategy[Callable[[str], Job]] = st.one_of(
        jobs(there, pools),
        st.builds(_greedy, st.sampled_from(pools.leaves()), _NEEDS, _COUNTS, _PLACES),
    )
    return View(0, there, pools, {}), draw(wild)("j")


_NEEDS = st.builds(
    Need,
    st.sampled_from((0, 1, 1, 2, 4, 16)),
    st.sampled_from((500, 1_000, 20_000)),
    st.sampled_from((GB, 300 * GB)),
)
_COUNTS = st.tuples(st.sampled_from((1, 2, 4, 9, 40)), st.sampled_from((True, False)))
_PLACES = st.builds(
    Locality,
    st.sampled_from((Level.SWITCH, Level.SOCKET, Level.NODE, Level.RACK, Level.CLUSTER)),
    st.sampled_from((None, 0.05)),
)


def _greedy(pool: str, need: Need, count: tuple[int, bool], place: Locality) -> Callable[[str], Job]:
    spec = RoleSpec(Role.WORKER, need, count[0], count[0], count[0])
    return lambda name: Job(
        name,
        roles=(spec,),
        pool=pool,
        preemptible=count[1],
        locality=place,
        number=number(name),
    )


def _starts_alone(empty: View, job: Job) -> bool:
    state = JobState(job, Phase.WAITING, submitted=0.0)
    decided = decide(Fifo(), replace(empty, jobs={job.number: state}), 0.0, Memory())
    return decided.decisions[0].kind is Kind.START


@given(requests())
@settings(EVERY, max_examples=120)
def test_a_job_is_refused_just_when_it_would_not_start_on_the_empty_cluster(
    request: tuple[View, Job],
) -> None:
    empty, job = request
    refused = refuse(job, empty.cluster, empty.pools) is not None
    assert refused != _starts_alone(empty, job)


@given(requests())
@settings(EVERY, max_examples=120)
def test_the_nearest_request_that_a_refusal_names_is_not_refused_and_starts(
    request: tuple[View, Job],
) -> None:
    empty, job = request
    refusal = refuse(job, empty.cluster, empty.pools)
    if refusal is not None and refusal.nearest is not None:
        nearest = changed(job, refusal.nearest)
        assert refuse(nearest, empty.cluster, empty.pools) is None
        assert _starts_alone(empty, nearest)
