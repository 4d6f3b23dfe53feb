"""A cycle that follows the view by difference decides what one made afresh would; steering is safe."""

from dataclasses import dataclass
from zlib import crc32

from hypothesis import given, settings

from muster.core.cycle.cycle import Cycle
from muster.model.decision import Kind
from muster.model.pool import Entitlements
from muster.model.view import Phase, View
from muster.policy.base import Allocation, Policy, Shares, exactly
from muster.policy.published.fifo import Fifo
from muster.policy.room import Room
from tests.prop.worlds import History, histories

EVERY = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@dataclass(frozen=True, slots=True)
class Whim:
    """Wants something else of every job every minute, but never more than there is."""

    name: str = "whim"
    informed: bool = False

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        room = Room(view, entitlements)
        found: list[Allocation] = []
        for state in room.movable:
            job, salt = state.job, crc32(f"{state.job.name}/{now // 60}".encode())
            kind = next(iter(room.types(job)[salt % 2 :]), None) or next(iter(room.types(job)), "")
            most = min(job.workers.most, room.most(job, kind))
            workers = salt % (job.workers.most + 1)
            workers = workers if job.workers.gang <= workers <= most else 0
            room.take(job, kind, workers)
            wanted = kind if workers and len(room.types(job)) > 1 else None
            batch = (salt % 3) * 64 or None
            found.append(exactly(state.number, workers, device_type=wanted, batch=batch))
        return Shares(tuple(found), memory, steers=True)


def follows(history: History, policy: Policy) -> None:
    """Every cycle of the world, checked there, is decided again by one that keeps its standing."""
    world = history.world()
    world.policy = policy
    warm = Cycle(policy)
    for frame in history.play(world):
        assert warm.decide(frame.before, frame.now, frame.memory) == frame.decided


@given(histories())
@EVERY
def test_a_queue_is_followed(history: History) -> None:
    follows(history, Fifo())


@given(histories())
@EVERY
def test_steering_is_followed(history: History) -> None:
    follows(history, Whim())


@given(histories())
@EVERY
def test_what_is_not_preemptible_is_never_shrunk_or_stopped_by_a_policy(history: History) -> None:
    world = history.world()
    world.policy = Whim()
    for frame in history.play(world):
        for decision in frame.of(Kind.PREEMPT, Kind.RESIZE):
            state = frame.before.jobs[decision.job]
            if not state.job.preemptible:
                assert decision.kind is Kind.RESIZE and state.phase is Phase.RUNNING
                assert decision.placement is not None and state.placement is not None
                assert set(state.placement.slots) <= set(decision.placement.slots)
