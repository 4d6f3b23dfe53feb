"""Shares of the parameters with which all owners are done together."""

import pytest

from muster.split.owners import Owners, edge, level, water_filled


def sharded(*cards: float) -> list[Owners]:
    """A worker behind each card, in one rack."""
    return [Owners([], [([edge(1, len(cards), card)], 1) for card in cards])]


def byteps(workers: int, servers: int) -> list[Owners]:
    """This many workers and CPU servers with cards of 1 byte/s, all of them owners."""
    return [Owners([], [([edge(1, workers, 1.0)], workers), ([edge(0, workers, 1.0)], servers)])]


def test_equal_cards_own_equal_shares() -> None:
    assert water_filled(sharded(100, 100, 100, 100)) == [[0.25] * 4]


def test_a_slow_card_that_is_busy_with_its_own_gradients_owns_nothing() -> None:
    # The notes' 200/200/200/100: the slow card needs S/100 for what it pushes; by then the fast ones
    # could own half each, and a third each is enough: (S + 2/3 S)/200 = S/120.
    cards = sharded(200, 200, 200, 100)
    assert level(cards) == pytest.approx(1 / 120)
    assert water_filled(cards, floor=1 / 100) == [pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=1e-6)]


def test_a_slightly_slower_card_is_no_reason_for_unequal_shares() -> None:
    assert water_filled(sharded(100, 100, 100, 99)) == [[0.25] * 4]


@pytest.mark.parametrize(("n", "k"), [(4, 1), (4, 3), (8, 2), (8, 8), (16, 5)])
def test_workers_and_cpu_servers_are_done_when_byteps_says(n: int, k: int) -> None:
    # Theorem 1 of BytePS: each CPU server holds 2 (n-1) / (n^2 + kn - 2k), and takes that n times.
    assert level(byteps(n, k)) == pytest.approx(n * 2 * (n - 1) / (n * n + k * n - 2 * k))


def test_workers_and_cpu_servers_hold_what_byteps_says() -> None:
    workers, servers = water_filled(byteps(4, 3))[0]
    assert workers == pytest.approx(4 * 1 / 22)
    assert servers == pytest.approx(3 * 6 / 22)


def test_with_as_many_cpu_servers_as_workers_the_workers_own_nothing() -> None:
    workers, servers = water_filled(byteps(4, 4))[0]
    assert workers == pytest.approx(0, abs=1e-6)
    assert servers == pytest.approx(1)


def test_a_rack_behind_a_thin_uplink_owns_less() -> None:
    # Two servers of 1 byte/s in each rack, no workers there: the thin uplink carries 4 O of its rack's
    # share O at 0.5, the other rack's cards 4 O/2 each.
    server = [([edge(0, 4, 1.0)], 2)]
    thin, wide = Owners([edge(0, 4, 0.5)], server), Owners([], server)
    (less,), (more,) = water_filled([thin, wide])
    assert [less, more] == pytest.approx([0.2, 0.8])


def test_shares_add_up_to_one() -> None:
    for racks in (sharded(1, 2, 3, 4), byteps(3, 2), [*sharded(5, 1, 1), *byteps(2, 2)]):
        assert sum(map(sum, water_filled(racks))) == pytest.approx(1)
