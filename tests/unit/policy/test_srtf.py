"""Shortest remaining time first."""

from dataclasses import replace
from math import inf

from muster.model.job import Job, Need
from muster.model.outlook import Outlook, Table
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.view import JobState, Phase, View
from muster.policy.base import Shares
from muster.policy.published.srtf import Srtf
from tests.builders import cluster, job, mixed, node_set, running, view
from tests.builders import placement as at
from tests.numbers import by_number, name_of

FOUR = node_set(devices=4)


def left(seconds: float, *rates: float) -> Outlook:
    """This many seconds of work with one worker, and the rates of 1, 2, ... workers (1 each)."""
    return Outlook(seconds, Table(rates or (1.0,)))


def seen(*jobs: Job | JobState, outlooks: dict[str, Outlook], pools: PoolTree | None = None) -> View:
    return replace(view(cluster(1, FOUR), jobs, pools), outlooks=by_number(outlooks))


def ask(at_hand: View, now: float = 0.0, devices: int = 4) -> Shares:
    entitled = Entitlements({("default", "A100"): devices}, {"A100": devices})
    return Srtf().allocate(at_hand, entitled, now, None)


def dealt(shares: Shares) -> list[tuple[str, int]]:
    assert shares.steers
    assert all(each.least == each.most for each in shares.allocations)
    return [(name_of(each.job), each.most) for each in shares.allocations]


def test_a_shorter_job_takes_the_devices_of_a_longer_one_that_runs() -> None:
    long = running(job("long", 4), at(("n0", 1), ("n0", 2), ("n0", 4), ("n0", 8)))
    shares = ask(seen(long, job("short", 4), outlooks={"long": left(100), "short": left(99)}))
    assert dealt(shares) == [("short", 4), ("long", 0)]


def test_a_longer_job_does_not() -> None:
    runs = running(job("runs", 4), at(("n0", 1), ("n0", 2), ("n0", 4), ("n0", 8)))
    shares = ask(seen(runs, job("longer", 4), outlooks={"runs": left(99), "longer": left(100)}))
    assert dealt(shares) == [("runs", 4), ("longer", 0)]


def test_time_left_is_work_over_the_speed_of_the_gang() -> None:
    # a: 100 units at 4 a second with its 2 workers, 25 s; b: 40 units at 1 a second, 40 s. b has less
    # work.
    outlooks = {"a": left(100, 2.0, 4.0), "b": left(40)}
    assert dealt(ask(seen(job("b", 1), job("a", 2), outlooks=outlooks))) == [("a", 2), ("b", 1)]


def test_a_gang_that_does_not_fit_lets_a_longer_one_pass() -> None:
    outlooks = {"first": left(1), "large": left(2), "small": left(3)}
    shares = ask(seen(job("first", 3), job("large", 2), job("small", 1), outlooks=outlooks))
    assert dealt(shares) == [("first", 3), ("large", 0), ("small", 1)]


def test_what_is_left_over_goes_to_the_shortest_while_it_gets_faster() -> None:
    # Gangs of one take 2 of 4. `short` is no faster with 3 workers than with 2: it takes one more,
    # `long` the last one.
    outlooks = {"long": left(100, 1.0, 2.0, 3.0, 4.0), "short": left(10, 1.0, 1.5, 1.5, 9.0)}
    elastic = (job("long", 1, most=4), job("short", 1, most=4))
    assert dealt(ask(seen(*elastic, outlooks=outlooks))) == [("short", 2), ("long", 2)]


def test_nobody_grows_before_all_gangs_that_fit_are_in() -> None:
    outlooks = {"short": left(1, 1.0, 2.0, 3.0, 4.0), "long": left(9)}
    shares = ask(seen(job("short", 1, most=4), job("long", 2), outlooks=outlooks))
    assert dealt(shares) == [("short", 2), ("long", 2)]


def test_without_outlook_the_duration_counts_less_what_has_run() -> None:
    # `runs` has held 2 devices for 70 s: 100 - 70 = 30 s left. `given` says 31.
    runs = running(job("runs", 2, duration=100.0), at(("n0", 1), ("n0", 2)), since=0.0)
    at_hand = seen(
        runs, job("given", 2, duration=31.0), job("known", 2), outlooks={"known": left(30.5)}
    )
    assert dealt(ask(at_hand, now=70.0)) == [("runs", 2), ("known", 2), ("given", 0)]


def test_a_job_of_which_nothing_is_known_goes_last_and_the_oldest_of_them_first() -> None:
    shares = ask(seen(job("z"), job("a"), job("known"), outlooks={"known": left(1e9)}))
    assert dealt(shares) == [("known", 1), ("z", 1), ("a", 1)]


def test_priority_goes_before_length() -> None:
    shares = ask(seen(job("long", 4, priority=1), job("short", 4), outlooks={"short": left(1)}))
    assert dealt(shares) == [("long", 4), ("short", 0)]


def test_a_pools_limit_holds() -> None:
    pools = PoolTree(
        {"x": Pool("x", quotas={"A100": Quota(limit=1)}), "y": Pool("y", quotas={"A100": Quota()})}
    )
    jobs = (job("a", 2, pool="x"), job("b", 1, pool="x"), job("c", 3, pool="y"))
    at_hand = seen(*jobs, outlooks={"a": left(1), "b": left(2), "c": left(3)}, pools=pools)
    entitled = Entitlements({("x", "A100"): 4, ("y", "A100"): 3}, {"A100": 4})
    shares = Srtf().allocate(at_hand, entitled, 0.0, None)
    assert dealt(shares) == [("a", 0), ("b", 1), ("c", 3)]


def test_jobs_that_cannot_be_changed_now_keep_their_devices_and_are_not_named() -> None:
    fixed = running(job("fixed", 1, preemptible=False), at(("n0", 1)))
    to = at(("n0", 2), ("n0", 4))
    changing = running(job("changing", 1), at(("n0", 2)), phase=Phase.RESIZING, target=to)
    at_hand = seen(fixed, changing, job("large", 2), job("small", 1), outlooks={"large": left(1)})
    assert dealt(ask(at_hand)) == [("large", 0), ("small", 1)]


def test_a_job_without_devices_gets_its_gang() -> None:
    free = job("free", 3, need=Need(millicores=100))
    assert dealt(ask(seen(job("all", 4), free, outlooks={}))) == [("all", 4), ("free", 3)]


def test_of_several_types_the_first_with_room_is_named_and_a_job_stays_where_it_is() -> None:
    both = mixed((1, FOUR), (1, node_set("b", device_type="V100", generation="volta", devices=4)))
    stays = running(job("stays", 2, device_types=("A100", "V100")), at(("n1", 1), ("n1", 2)))
    jobs = (stays, job("first", 3, device_types=("A100", "V100")), job("next", 2))
    outlooks = {"stays": left(1), "first": left(2), "next": left(3)}
    at_hand = replace(view(both, jobs), outlooks=by_number(outlooks))
    each = {"A100": 4, "V100": 4}
    entitled = Entitlements({("default", name): n for name, n in each.items()}, each)
    shares = Srtf().allocate(at_hand, entitled, 0.0, None)
    assert [(name_of(a.job), a.most, a.device_type) for a in shares.allocations] == [
        ("stays", 2, "V100"),
        ("first", 3, "A100"),
        ("next", 2, "V100"),
    ]


def test_a_job_that_cannot_run_with_its_gang_is_not_started() -> None:
    assert dealt(ask(seen(job("j"), outlooks={"j": left(1, 0.0)}))) == [("j", 0)]


def test_asked_twice_it_says_the_same_and_wants_not_to_be_asked_again() -> None:
    at_hand = seen(job("a", 3), job("b", 2), outlooks={"a": left(2)})
    assert ask(at_hand) == ask(at_hand)
    assert ask(at_hand).again == inf
    assert Srtf().informed
