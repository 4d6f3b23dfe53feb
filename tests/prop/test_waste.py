"""Nothing is taken from a job that nobody else can use: over random clusters, jobs, drains and policies."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle.cycle import decide
from muster.model.cluster import NodeState
from muster.model.decision import Decision, Kind
from muster.model.outlook import Outlook, Table
from muster.model.reason import Code
from muster.model.view import Phase, View
from muster.policy.registry import POLICIES
from tests.prop.worlds import History, histories
from tests.world import Frame, World, completion

EVERY = settings(max_examples=60, deadline=None, derandomize=True, database=None)
POLICY = st.sampled_from(sorted(POLICIES))
_FOR_OTHERS = (Code.PREEMPTED, Code.PREEMPTED_POLICY)


def believed(view: View, salt: int) -> View:
    """The view with beliefs about half of the jobs: short and long ones, fast and slow ones."""
    lengths, rates = (10.0, 1000.0, 100_000.0), ((1.0,), (1.0, 1.9, 2.7, 3.4), (1.0, 1.2, 1.1))
    outlooks = {
        number: Outlook(lengths[(number + salt) % 3], Table(rates[number % 3]))
        for number in view.jobs
        if (number + salt) % 2
    }
    return replace(view, outlooks=outlooks)


def played(history: History, policy: str, salt: int) -> list[Frame]:
    """Every cycle of the history under a policy, with beliefs."""
    world = World(history.view, policy=POLICIES[policy])
    found = []
    for frame in history.play(world):
        found.append(frame)
        world.view = believed(world.view, salt)
    return found


@given(histories(), POLICY, st.integers(0, 5))
@EVERY
def test_no_device_is_left_idle_that_the_job_it_was_taken_from_could_have_kept(
    history: History, policy: str, salt: int
) -> None:
    """A job that is stopped for others: once all has stopped, and nothing else happened, the next cycle
    gives some of its devices to somebody."""
    for frame in played(history, policy, salt):
        for decision in frame.of(Kind.PREEMPT):
            if decision.reason.code in _FOR_OTHERS:
                assert _is_used(frame, policy, decision), decision


def _is_used(frame: Frame, policy: str, decision: Decision) -> bool:
    placement = frame.before.jobs[decision.job].placement
    assert placement is not None
    bits = placement.bits()
    twin = World(frame.after, frame.now, frame.decided.memory, POLICIES[policy])
    for _ in range(2):
        twin.complete()
        then = twin.cycle()
        idle = {node.name: node.free & bits.get(node.name, 0) for node in then.after.cluster.nodes}
        if any(idle[node] != held for node, held in bits.items()):
            return True
    return False


@given(histories(), POLICY, st.integers(0, 5))
@EVERY
def test_a_draining_node_without_a_deadline_costs_no_job_its_devices(
    history: History, policy: str, salt: int
) -> None:
    for frame in played(history, policy, salt):
        nodes = {n.name for n in frame.before.cluster.nodes if n.state is NodeState.DRAINING}
        for decision in frame.of(Kind.PREEMPT):
            placement = frame.before.jobs[decision.job].placement
            assert placement is not None and not placement.nodes() <= nodes


@given(histories(), POLICY, st.integers(0, 5))
@EVERY
def test_a_job_that_would_start_over_is_stopped_only_for_one_that_outranks_it(
    history: History, policy: str, salt: int
) -> None:
    over = tuple(
        (seconds, tuple(replace(job, resumes=job.number % 3 == 0) for job in jobs), each)
        for seconds, jobs, each in history.steps
    )
    for frame in played(replace(history, steps=over), policy, salt):
        for decision in frame.of(Kind.PREEMPT):
            state = frame.before.jobs[decision.job]
            if state.keeps_work or decision.reason.code not in _FOR_OTHERS:
                continue
            served = frame.before.jobs[frame.before.names[str(decision.reason.beneficiary)]]
            higher = served.job.priority > state.job.priority
            assert higher or served.job.pool != state.job.pool, decision
            assert decision.reason.lost is not None
