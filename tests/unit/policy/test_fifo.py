"""First in, first out, with backfill."""

from muster.model.pool import Entitlements
from muster.policy.base import Allocation
from muster.policy.published.fifo import Fifo
from muster.policy.registry import POLICIES
from tests.builders import cluster, job, running, view
from tests.builders import placement as at
from tests.numbers import name_of, number

NOTHING = Entitlements({})


def order(*jobs: object) -> list[str]:
    seen = view(cluster(1), jobs)  # type: ignore[arg-type]
    return [name_of(a.job) for a in Fifo().allocate(seen, NOTHING, 0.0, None).allocations]


def test_older_jobs_go_first() -> None:
    assert order(job("b"), job("a")) == ["b", "a"]


def test_higher_priority_goes_before_older() -> None:
    assert order(job("old"), job("urgent", priority=5), job("low", priority=-1)) == [
        "urgent",
        "old",
        "low",
    ]


def test_of_two_at_one_moment_the_name_decides() -> None:
    states = [running(job(name, most=2), at(("n0", bit))) for name, bit in (("b", 1), ("a", 2))]
    assert order(*states) == ["a", "b"]


def test_a_job_that_has_all_it_wants_is_left_as_it_is() -> None:
    assert order(running(job("full"), at(("n0", 1))), job("waits")) == ["waits"]


def test_each_gets_its_gang_first_and_up_to_its_most_after() -> None:
    seen = view(cluster(1), [job("j", 4, gang=2, most=8)])
    shares = Fifo().allocate(seen, NOTHING, 0.0, "memory")
    assert shares.allocations == (Allocation(number("j"), 2, 8),)
    assert shares.memory == "memory"


def test_every_policy_is_registered_by_its_name() -> None:
    assert all(policy.name == name for name, policy in POLICIES.items())
    assert "fifo" in POLICIES
