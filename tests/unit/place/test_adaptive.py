"""When the cluster spreads and when it packs."""

from itertools import pairwise
from random import Random

import pytest

from muster.place.adaptive import HALF_LIFE, Mood, Pressure, settle

NODE = 8


def look(whole: int, *gangs: int, singles: int = 0) -> Pressure:
    return Pressure(whole=whole, per_node=NODE, singles=singles, gangs=gangs)


def test_an_empty_cluster_spreads() -> None:
    assert not settle(Mood(), look(64, 8, 16), 0.0).packing


def test_a_cluster_packs_when_its_whole_nodes_run_short_of_what_is_asked() -> None:
    assert not settle(Mood(), look(24, 8, 16), 0.0).packing
    assert settle(Mood(), look(16, 8, 16), 0.0).packing


def test_what_was_asked_is_remembered_after_the_queue_is_empty() -> None:
    mood = settle(Mood(), look(64, 32), 0.0)
    mood = settle(mood, look(24), 60.0)
    assert mood.packing


def test_demand_fades_by_half_in_a_half_life() -> None:
    mood = settle(Mood(), look(64, 32), 0.0)
    for hours, demand in ((1, 16.0), (2, 8.0), (5, 1.0)):
        later = settle(mood, look(64), hours * HALF_LIFE)
        assert later.demand == pytest.approx(demand)
        assert later.largest == pytest.approx(demand)


def test_demand_fades_alike_whether_it_is_looked_at_often_or_seldom() -> None:
    often = settle(Mood(), look(64, 32), 0.0)
    seldom = often
    for second in range(60, 3601, 60):
        often = settle(often, look(64), float(second))
    seldom = settle(seldom, look(64), 3600.0)
    assert often.demand == pytest.approx(seldom.demand)


def test_old_demand_lets_a_full_cluster_spread_again() -> None:
    mood = settle(Mood(), look(0, 16), 0.0)
    assert mood.packing
    assert not settle(mood, look(0), 6 * HALF_LIFE).packing


def test_waiting_one_device_jobs_count_as_nodes_about_to_be_broken() -> None:
    assert not settle(Mood(), look(32, 16, singles=2), 0.0).packing
    assert settle(Mood(), look(32, 16, singles=3), 0.0).packing


def test_a_clock_that_steps_back_does_not_make_demand_grow() -> None:
    mood = settle(Mood(), look(64, 8), 1_000.0)
    assert settle(mood, look(64), 0.0).demand == 8.0


@pytest.mark.parametrize("seed", range(5))
def test_a_cluster_never_asked_for_gangs_always_spreads(seed: int) -> None:
    random, mood = Random(seed), Mood()
    for now in range(0, 50_000, 100):
        pressure = look(random.randrange(0, 64, NODE), singles=random.randrange(9))
        mood = settle(mood, pressure, float(now))
        assert not mood.packing


@pytest.mark.parametrize("gang", [2, 8, 9, 12, 20])
def test_one_start_and_one_end_around_the_threshold_do_not_flip_the_mood_to_and_fro(gang: int) -> None:
    taken = -(-gang // NODE) * NODE
    mood, moods = Mood(), []
    for second in range(200):
        whole = gang - 1 if second % 2 else gang - 1 + taken
        mood = settle(mood, look(whole, gang), float(second))
        moods.append(mood.packing)
    assert sum(a != b for a, b in pairwise(moods)) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_long_random_small_changes_flip_the_mood_a_few_times_only(seed: int) -> None:
    """Every minute for a week one node is broken or freed, around the threshold; a gang of two
    nodes is asked for all the while. A rule without memory would flip at every crossing."""
    random, mood, whole = Random(seed), Mood(), 16
    flips = crossings = 0
    for now in range(0, 7 * 86_400, 60):
        following = min(40, max(0, whole + random.choice((-NODE, NODE))))
        crossings += (whole < 16) != (following < 16)
        whole = following
        settled = settle(mood, look(whole, 16), float(now))
        flips += settled.packing != mood.packing
        mood = settled
    assert crossings > 1_000
    assert flips < crossings / 2
    assert_each_flip_took_a_gang_of_room(seed)


def assert_each_flip_took_a_gang_of_room(seed: int) -> None:
    """Between two flips the whole nodes have changed by at least the largest gang."""
    random, mood, whole = Random(seed), Mood(), 16
    at_flips: list[int] = []
    for now in range(0, 86_400, 60):
        whole = min(40, max(0, whole + random.choice((-NODE, NODE))))
        settled = settle(mood, look(whole, 16), float(now))
        if settled.packing != mood.packing:
            at_flips.append(whole)
        mood = settled
    assert all(abs(a - b) >= 16 for a, b in pairwise(at_flips))


def test_a_cluster_without_devices_spreads() -> None:
    assert not settle(Mood(packing=True), Pressure(0, 0, 0, ()), 0.0).packing
