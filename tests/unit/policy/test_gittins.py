"""The Gittins index, and Tiresias by it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.pool import Entitlements
from muster.model.view import JobState, View
from muster.policy.base import Shares
from muster.policy.published.gittins import ServiceSample, gittins
from muster.policy.published.tiresias import LEVELS, QUANTUM, Remembered, TiresiasGittins
from tests.builders import cluster, job, node_set, running, view
from tests.builders import placement as at
from tests.numbers import name_of

POLICY = TiresiasGittins()


def ask(seen: View, now: float, memory: object = None) -> Shares:
    return POLICY.allocate(seen, Entitlements({("default", "A100"): 4}, {"A100": 4}), now, memory)


def dealt(shares: Shares) -> list[tuple[str, int]]:
    return [(name_of(each.job), each.most) for each in shares.allocations]


def on_all(name: str, *, served: float, since: float) -> JobState:
    """A job that runs on all four devices."""
    where = at(*(("n0", 1 << i) for i in range(4)))
    return running(job(name, 4), where, served=served, since=since)


def four(*jobs: object) -> View:
    return view(cluster(1, node_set(devices=4)), jobs)  # type: ignore[arg-type]


def test_mostly_short_jobs() -> None:
    # S is 1, 1, 1 or 10. At 0, d = 1: (3/4) / 1; d = 10: 1 / ((3 * 1 + 10) / 4) = 4/13: the best is
    # 3/4. At 1 only the 10 is left: 1 / 9. At 10 nobody is.
    assert gittins([1, 10, 1, 1], [0, 1, 10]) == pytest.approx((3 / 4, 1 / 9, 0.0))


def test_jobs_nearing_a_common_end() -> None:
    # S is 2 or 4. At 0, d = 2: (1/2) / 2 = 1/4; d = 4: 1 / 3, the best. At 1, d = 1: 1/2; d = 3: 1/2.
    # At 2: 1/2. At 3: 1. The index rises: who is half done goes first.
    assert gittins([2, 4], [0, 1, 2, 3]) == pytest.approx((1 / 3, 1 / 2, 1 / 2, 1.0))


def test_a_job_of_known_service_has_the_reciprocal_of_what_is_left() -> None:
    assert gittins([8], [0, 3, 6]) == pytest.approx((1 / 8, 1 / 5, 1 / 2))


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=20), st.floats(0, 1e6))
def test_no_moment_to_stop_investing_is_better(sample: list[float], a: float) -> None:
    (index,) = gittins(sample, [a])
    left = [s - a for s in sample if s > a]
    for d in [each * part for each in left for part in (0.5, 1.0, 1.5)]:
        chance = sum(each <= d for each in left) / len(left)
        invested = sum(min(each, d) for each in left) / len(left)
        assert chance / invested <= index * (1 + 1e-9)


def test_the_index_is_renewed_when_the_sample_has_grown_by_a_tenth() -> None:
    sample = ServiceSample().learn([10.0] * 20, [0.0])
    assert sample.index == pytest.approx((0.1,))
    once = sample.learn([1.0], [0.0])
    assert (once.index, once.recent) == (sample.index, (1.0,))
    # Two more of 20: 1, 1 and twenty times 10. d = 10: 22 / (2 + 200) beats d = 1: 2 / 22.
    assert once.learn([1.0], [0.0]).index == pytest.approx((22 / 202,))


def test_until_anything_is_known_the_least_service_goes_first() -> None:
    shares = ask(four(on_all("old", served=2 * QUANTUM, since=90.0), job("new", 4)), 100.0)
    assert dealt(shares) == [("new", 4), ("old", 0)]


def test_it_learns_from_jobs_that_are_gone_and_lets_go_first_who_is_near_the_end() -> None:
    # Two jobs ran on 4 devices for 2 and 4 quanta of service and ended: index(0) = 1 / (3 Q),
    # index(2 Q) = 1 / (2 Q), as above in units of Q: the job with 2 Q behind it keeps its devices.
    memory: object = None
    for name, quanta in (("a", 2), ("b", 4)):
        memory = ask(four(on_all(name, served=0.0, since=0.0)), 0.0, memory).memory
        memory = ask(four(), quanta * QUANTUM / 4, memory).memory
    assert isinstance(memory, Remembered)
    assert memory.sample.services == pytest.approx((2 * QUANTUM, 4 * QUANTUM))
    shares = ask(four(on_all("old", served=2 * QUANTUM, since=0.0), job("new", 4)), 1.0, memory)
    assert dealt(shares) == []
    # After only short ones the new job is the better bet.
    short = Remembered({}, ServiceSample().learn([QUANTUM] * 9 + [99 * QUANTUM], LEVELS))
    shares = ask(four(on_all("old", served=2 * QUANTUM, since=0.0), job("new", 4)), 1.0, short)
    assert dict(dealt(shares)) == {"new": 4, "old": 0}


def test_a_job_that_starts_and_ends_between_two_cycles_is_learnt_from() -> None:
    memory = ask(four(job("quick", 2)), 10.0).memory
    later = ask(four(), 15.0, memory).memory
    assert isinstance(later, Remembered)
    assert later.sample.services == pytest.approx((2 * 5.0,))


def test_a_job_that_was_waiting_when_it_left_teaches_nothing() -> None:
    memory = ask(four(on_all("runs", served=0.0, since=0.0), job("cancelled", 4)), 1.0).memory
    later = ask(four(on_all("runs", served=0.0, since=0.0)), 2.0, memory).memory
    assert isinstance(later, Remembered)
    assert later.sample == ServiceSample()


def test_it_wants_to_be_asked_when_a_job_passes_into_the_next_queue() -> None:
    # QUANTUM on 4 devices takes QUANTUM / 4 s.
    runs, waits = on_all("runs", served=0.0, since=0.0), job("waits", 4)
    assert ask(four(runs, waits), 1.0).again == pytest.approx(QUANTUM / 4)


def test_asked_twice_it_says_the_same() -> None:
    seen = four(on_all("runs", served=0.0, since=0.0), job("a", 4), job("b", 2))
    assert ask(seen, 5.0) == ask(seen, 5.0)
    assert (POLICY.name, POLICY.informed) == ("tiresias-g", False)
