"""Dealing devices where they are worth most."""

from muster.policy.market.deal import CORE_DEVICES, CORE_JOBS, Offer, deal


def test_what_is_worth_most_together_is_dealt() -> None:
    # 3 devices: 1 + 2 are worth 4 + 6; all 3 to either 9 or 7.
    first = Offer((0, 1, 2, 3), (0.0, 4.0, 5.0, 9.0))
    second = Offer((0, 1, 2, 3), (0.0, 1.0, 6.0, 7.0))
    assert deal([first, second], 3) == [1, 2]


def test_devices_that_bring_nothing_stay_free() -> None:
    assert deal([Offer((0, 1, 2), (0.0, 3.0, 3.0))], 2) == [1]
    assert deal([Offer((0, 2), (0.0, -1.0))], 2) == [0]
    assert deal([], 2) == []


def test_a_gang_that_does_not_fit_gets_nothing() -> None:
    assert deal([Offer((0, 4), (0.0, 9.0)), Offer((0, 1), (0.0, 1.0))], 3) == [0, 1]


def test_many_jobs_get_what_is_left_over_too() -> None:
    # Pairs are worth more a device than triples, but an odd number of devices is best used with one
    # triple: 401 = 199 pairs and a triple, worth 199 * 2.1 + 3; 200 pairs are worth 420.
    jobs = 300
    assert jobs > CORE_JOBS and CORE_DEVICES < 401
    dealt = deal([Offer((0, 2, 3), (0.0, 2.1, 3.0))] * jobs, 401)
    assert sum((0, 2, 3)[place] for place in dealt) == 401
    assert dealt.count(2) == 1
