"""Hops that share an end: their rates from what each sender counts by itself."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.perf.history.shared_ends import Sent, SharedEnds, carried

EVERY = settings(max_examples=60, deadline=None, derandomize=True, database=None)
Hop = tuple[int, int]


def busy(links: list[float], sizes: dict[Hop, float]) -> dict[Hop, float]:
    """The s that each transfer takes if all begin together and links are shared fairly (max-min)."""
    left, now, done = dict(sizes), 0.0, {}
    while left:
        rates = fair(links, set(left))
        pause = min(left[hop] / rates[hop] for hop in left)
        now += pause
        left = {hop: size - pause * rates[hop] for hop, size in left.items()}
        for hop in [hop for hop, size in left.items() if size <= 1e-9 * sizes[hop]]:
            done[hop] = now
            del left[hop]
    return done


def fair(links: list[float], hops: set[Hop]) -> dict[Hop, float]:
    """Fill all hops evenly; each end that is full fixes those over it."""
    rates: dict[Hop, float] = {}
    ends = {(side, i): links[i] for side in (0, 1) for i in range(len(links))}
    while open_ := hops - rates.keys():
        over = {end: [hop for hop in open_ if hop[end[0]] == end[1]] for end in ends}
        full = min((end for end in ends if over[end]), key=lambda end: ends[end] / len(over[end]))
        rate = ends[full] / len(over[full])
        for hop in over[full]:
            rates[hop] = rate
            for side in (0, 1):
                ends[side, hop[side]] -= rate
    return rates


def measured(links: list[float], sizes: dict[Hop, float]) -> dict[Hop, float]:
    seconds, ends = busy(links, sizes), SharedEnds()
    found = {}
    for _ in range(2):
        for (source, target), size in sizes.items():
            sent = Sent(size, seconds[source, target])
            hop = ends.rate(f"worker-{source}", f"n{source}", f"n{target}", sent)
            if hop is not None:
                found[source, target] = hop.rate
    return found


def test_one_slow_receiver_is_measured_whoever_sends_how_much() -> None:
    """Two owners of half the parameters each send them to all others, one of which is slow."""
    links = [200.0, 200.0, 200.0, 40.0]
    found = measured(links, {(i, j): 50.0 for i in (0, 1) for j in range(4) if i != j})
    assert found[0, 3] == found[1, 3] == pytest.approx(40.0)


def test_two_phases_of_one_step_do_not_count_as_one() -> None:
    """To fast peers go gradients first, and parameters later, to the slow one parameters alone."""
    fast, slow = Sent(200.0, 1.0), Sent(100.0, 10.0)
    ends = SharedEnds()
    for _ in range(2):
        hops = [ends.rate("worker-0", "n0", f"n{i}", sent) for i, sent in ((1, fast), (2, slow))]
    assert hops == [(200.0, True), (10.0, True)]


def test_workers_that_fill_a_servers_link_tell_nothing_of_their_own() -> None:
    """100 each into 200: the server's is full, theirs are not, and nobody can tell."""
    found = measured([100.0, 100.0, 100.0, 200.0], {(i, 3): 50.0 for i in range(3)})
    assert found == {}


def test_a_slow_worker_beside_others_at_a_server_is_known_by_it() -> None:
    found = measured([10.0, 100.0, 100.0, 200.0], {(i, 3): 50.0 for i in range(3)})
    assert found[0, 3] == pytest.approx(10.0)


def test_members_of_one_host_share_its_link() -> None:
    ends = SharedEnds()
    for _ in range(2):
        for task in range(4):
            hop = ends.rate(f"worker-{task}", "n0", "n1", Sent(10.0, 2.0))
    assert hop == (20.0, True)


def test_a_first_report_says_nothing_as_others_may_still_come() -> None:
    assert SharedEnds().rate("worker-0", "n0", "n1", Sent(10.0, 2.0)) is None


@EVERY
@given(
    st.lists(st.sampled_from([10.0, 20.0, 40.0, 100.0, 400.0]), min_size=2, max_size=5),
    st.data(),
)
def test_no_hop_is_believed_faster_than_its_ends(links: list[float], data: st.DataObject) -> None:
    hops = list(permutations(range(len(links)), 2))
    sizes = {hop: data.draw(st.sampled_from([1.0, 3.0, 10.0])) for hop in hops}
    for (source, target), rate in measured(links, sizes).items():
        assert rate <= min(links[source], links[target]) * (1 + 1e-6)


@EVERY
@given(st.integers(3, 6), st.sampled_from([0.05, 0.1, 0.2, 0.5]))
def test_the_slowest_link_is_measured_as_it_is(nodes: int, part: float) -> None:
    links = [100.0 * part] + [100.0] * (nodes - 1)
    found = measured(links, dict.fromkeys(permutations(range(nodes), 2), 10.0))
    for peer in range(1, nodes):
        assert found[0, peer] == pytest.approx(100.0 * part, rel=1e-6)
        assert found[peer, 0] == pytest.approx(100.0 * part, rel=1e-6)


def test_what_faster_connections_carried_counts_beside_the_slower() -> None:
    """10 MB to each of three hosts at once: two are done after 0.2 s, the third after 2."""
    assert carried([Sent(1e7, 2.0), Sent(1e7, 0.2), Sent(1e7, 0.2)]) == pytest.approx(1e8)
