"""What stages cost, and a step made of computing and transfers, by hand."""

import pytest

from muster.model.plan import Overlap, Sync
from muster.perf.costs import Price, Trips, price, step_seconds, trips
from muster.perf.overlap import pieces_of
from muster.perf.traffic import Last, Load, Place, SyncStage
from muster.perf.wires import LinkClass, Wire, Wiring
from tests.builders import cluster, placement
from tests.unit.perf.shapes import CHUNK, MB, plan, server, shape_of

FAST: Place = (LinkClass(Wire.LANE, "a"), 0, 1)
SLOW: Place = (LinkClass(Wire.NIC, "a"), 0, 0)
PIECES = pieces_of(((30 * MB, 0.5), (30 * MB, 1.0)), 25 * MB)
MS_PER_MB = 1e-9
PAIR = placement(("n0", 0b1), ("n1", 0b1))


def bandwidth(place: Place) -> float:
    return 10e9 if place is FAST else 1e9


def made(how: Overlap, sync: Sync) -> Trips:
    """The stages of two workers on two nodes (and a server on a third)."""
    placed = PAIR.with_slots((server("n2"),)) if sync is Sync.DEDICATED else PAIR
    there = cluster(3)
    return trips(plan(sync, how), shape_of(there, placed), Wiring(there))


def test_a_stage_costs_what_its_busiest_link_takes_the_busier_way() -> None:
    stage = SyncStage({FAST: Load(4.0, 8.0), SLOW: Load(0.5, 0.2)}, 3, 1e-3)
    # Lane 8/10e9 = 0.8 ns/byte, card 0.5/1e9 = 0.5 ns/byte.
    found = price([stage], bandwidth)
    assert found.per_byte == pytest.approx(0.8e-9)
    assert found.per_piece == pytest.approx(3e-3)
    assert found.once == 0


def test_pieces_follow_each_other_through_stages_at_the_pace_of_the_slowest() -> None:
    # 0.1 ns/byte on the lane, 1 ns/byte on the card: one piece spends 0.1 ns/byte more on its way.
    first = SyncStage({FAST: Load(1.0, 0.0)}, 2, 1e-3)
    second = SyncStage({SLOW: Load(1.0, 0.0)}, 1, 5e-3)
    found = price([first, second], bandwidth)
    assert found.per_byte == pytest.approx(1e-9)
    assert found.through == pytest.approx(0.1e-9)
    assert found.per_piece == pytest.approx(5e-3)
    assert found.once == pytest.approx(2 * 1e-3)


def test_stages_over_the_same_link_share_it() -> None:
    stage = SyncStage({SLOW: Load(1.0, 0.0)}, 1, 0.0)
    found = price([stage, stage], bandwidth)
    assert found.per_byte == pytest.approx(2e-9)
    assert found.through == pytest.approx(0.0)


def test_the_last_chunks_come_in_after_all_was_sent() -> None:
    # The card sends a byte for each byte, then waits for three chunks; nothing else is as busy.
    stage = SyncStage({SLOW: Load(1.0, 0.0)}, 1, 0.0, last={SLOW: Last(1.0, 3)})
    found = price([stage], bandwidth)
    assert found.done(0.0, PIECES) == pytest.approx((60e6 + 3 * CHUNK) / 1e9)
    # Beside 100 ms of computing: max(50 + 60, 100 + 30) and the chunks.
    assert found.done(0.1, PIECES) == pytest.approx(0.130 + 3 * CHUNK / 1e9)


def test_last_chunks_that_come_while_another_link_is_still_busy_cost_nothing() -> None:
    stage = SyncStage({SLOW: Load(1.0, 0.0), FAST: Load(0.1, 0.0)}, 1, 0.0, last={FAST: Last(0.1, 3)})
    assert price([stage], bandwidth).done(0.0, PIECES) == pytest.approx(60e6 / 1e9)


def test_of_several_ends_the_latest_counts() -> None:
    # 60 ms and one chunk of 0.26 ms; or 30 ms and two thousand chunks of 0.026 ms.
    ends = {SLOW: Last(1.0, 1), FAST: Last(5.0, 2000)}
    found = price([SyncStage({SLOW: Load(1.0, 0.0)}, 1, 0.0, last=ends)], bandwidth)
    assert found.done(0.0, PIECES) == pytest.approx(5 * 60e6 / 10e9 + 2000 * CHUNK / 10e9)


def test_two_equal_pieces_through_two_stages() -> None:
    # 30 ms and 15 ms for a piece: the second leaves the slow stage at 60, the fast one at 75.
    found = Price(MS_PER_MB, through=0.5 * MS_PER_MB).done(0.0, PIECES)
    assert found == pytest.approx(0.075)


def test_no_stages_cost_nothing() -> None:
    assert price([], bandwidth) == Price()
    for overlap in Overlap:
        assert step_seconds(0.15, Price(), Price(), PIECES, overlap) == pytest.approx(0.15)


def test_links_twice_as_slow_cost_twice() -> None:
    assert Price(1e-9, 2e-3, 3e-9, 4e-3, ((1e-9, 5e-3),)).times(2) == (
        Price(2e-9, 4e-3, 6e-9, 8e-3, ((2e-9, 1e-2),))
    )


OUT, BACK = Price(MS_PER_MB, 1e-3, once=2e-3), Price(MS_PER_MB, 2e-3, once=3e-3)


def test_none_is_computing_then_every_transfer() -> None:
    # 150 + (1 + 1) * 60 MB + 2 pieces * (1 + 2) + 2 + 3 ms.
    found = step_seconds(0.15, OUT, BACK, PIECES, Overlap.NONE)
    assert found == pytest.approx(0.150 + 0.120 + 0.006 + 0.005)


def test_full_sends_beside_the_backward_pass() -> None:
    # Forward 50 ms, backward 100: max(50 + 60 + 2, 100 + 30 + 1) = 131; then the last chunks, 2 ms.
    found = step_seconds(0.15, OUT, Price(), PIECES, Overlap.FULL)
    assert found == pytest.approx(0.050 + 0.131 + 0.002)


def test_barrier_pulls_beside_the_next_forward_pass() -> None:
    # Out as above: 131 ms and 2. Back beside 50 ms of forward pass, the same points read backwards:
    # the piece ready last is needed first. max(50 * 0.5 + 60 + 2 * 2, 50 * 1 + 30 + 2) = 89; and 3.
    found = step_seconds(0.15, OUT, BACK, PIECES, Overlap.BARRIER)
    assert found == pytest.approx(0.131 + 0.002 + 0.089 + 0.003)


def test_the_forward_pass_with_arriving_parameters_layer_by_layer() -> None:
    # Two layers, the first of which was ready last. Its 10 MB arrive at 10 ms, then it computes 25 ms
    # until 35; the other's 40 MB arrive at 50 ms, and it ends at 75. Backward, nothing to send: 100.
    two = pieces_of(((40 * MB, 0.5), (10 * MB, 1.0)), 10 * MB)
    found = step_seconds(0.15, Price(), Price(MS_PER_MB), two, Overlap.BARRIER)
    assert found == pytest.approx(0.075 + 0.100)


def test_rings_have_no_way_back_so_that_a_barrier_changes_nothing() -> None:
    for sync in (Sync.RING, Sync.HIERARCHICAL):
        assert made(Overlap.BARRIER, sync) == made(Overlap.FULL, sync)
        assert made(Overlap.BARRIER, sync).back == ()


def test_servers_push_and_pull_at_once_unless_there_is_a_barrier() -> None:
    for sync in (Sync.SHARDED, Sync.DEDICATED):
        assert made(Overlap.FULL, sync).back == ()
        assert made(Overlap.NONE, sync) == made(Overlap.FULL, sync)
        assert len(made(Overlap.BARRIER, sync).back) == 1
        assert made(Overlap.BARRIER, sync).loads() == made(Overlap.FULL, sync).loads()


def test_a_pull_follows_its_push_with_or_without_a_barrier() -> None:
    # Two messages for each piece: 20 us of a process, 10 of card and rack, each way.
    for how in (Overlap.FULL, Overlap.BARRIER):
        found = made(how, Sync.SHARDED)
        waits = [price(stages, bandwidth).per_piece for stages in (found.out, found.back)]
        assert sum(waits) == pytest.approx(2 * 30e-6)


def test_devices_of_a_task_sum_before_the_task_pushes() -> None:
    there = cluster(2)
    pairs = shape_of(there, placement(("n0", 0b11), ("n1", 0b11)))
    assert len(trips(plan(Sync.SHARDED), pairs, Wiring(there)).out) == 2


def test_one_worker_alone_makes_no_trips_by_ring() -> None:
    there = cluster(1)
    assert trips(plan(), shape_of(there, placement(("n0", 0b1))), Wiring(there)) == Trips(())


@pytest.mark.parametrize("per_mb", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("per_piece", [0.0, 2e-3])
def test_sending_early_never_takes_longer_than_sending_after(per_mb: float, per_piece: float) -> None:
    out = Price(per_mb * MS_PER_MB, per_piece, once=1e-3)
    full, none = (step_seconds(0.15, out, Price(), PIECES, how) for how in (Overlap.FULL, Overlap.NONE))
    assert 0.15 < full <= none


@pytest.mark.parametrize("per_mb", [0.01, 0.3, 1.0, 5.0])
def test_a_barrier_is_no_slower_than_pushing_and_pulling_after_all_computing(per_mb: float) -> None:
    half = Price(per_mb * MS_PER_MB, 1e-3, once=1e-3)
    barrier, none = (
        step_seconds(0.15, half, half, PIECES, how) for how in (Overlap.BARRIER, Overlap.NONE)
    )
    assert barrier <= none
