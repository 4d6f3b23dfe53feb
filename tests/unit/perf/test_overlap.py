"""Pieces of gradients, and when the last of them has arrived, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from muster.perf.overlap import BUCKET, Pieces, pieces, pieces_of
from tests.unit.perf.shapes import MB, model

BUCKET_25 = 25 * MB
TWO = pieces_of(((30 * MB, 0.5), (10 * MB, 0.8), (20 * MB, 1.0)), BUCKET_25)
"""30 MB ready at half, and 10 + 20 MB that travel together when the later one is ready."""
MS_PER_MB = 1e-9
"""In s/byte."""


def sizes(some: Pieces) -> list[float]:
    """Bytes of each piece."""
    return list(-np.diff([*some.bytes_on, 0.0]))


def test_small_tensors_wait_for_others_until_they_fill_a_piece() -> None:
    assert sizes(TWO) == [30 * MB, 30 * MB]
    assert list(TWO.ready) == [0.5, 1.0]
    assert list(TWO.bytes_on) == [60 * MB, 30 * MB]
    assert list(TWO.count_on) == [2, 1]


def test_a_large_tensor_is_cut_into_even_pieces() -> None:
    cut = pieces_of(((110 * MB, 0.4), (5 * MB, 1.0)), BUCKET_25)
    assert sizes(cut) == pytest.approx([27.5 * MB] * 4 + [5 * MB])  # 110 / 25 = 4.4
    assert list(cut.ready) == [0.4] * 4 + [1.0]


def test_what_is_left_at_the_end_travels_as_it_is() -> None:
    assert sizes(pieces_of(((1000, 1.0),), BUCKET_25)) == [1000]


def test_all_bytes_travel() -> None:
    profile = model(*(7 * MB * i for i in range(1, 12)))
    assert pieces(profile).bytes_on[0] == pytest.approx(profile.gradients)
    assert BUCKET == BUCKET_25


def test_with_nothing_to_send_there_is_only_computing() -> None:
    assert TWO.done(0.1, 0.0, 0.0) == 0.1


@pytest.mark.parametrize(
    ("per_mb", "per_piece", "done"),
    [
        # 100 ms of computing; the first piece is ready at 50 ms, the second at 100 ms.
        (0.1, 0.0, 103),  # 50 + 6 is long past: the second goes alone, 100 + 3
        (1.0, 0.0, 130),  # 50 + 60 = 110 < 100 + 30
        (3.0, 0.0, 230),  # 50 + 180 > 100 + 90: the link never rests
        (0.1, 10.0, 113),  # 100 + 3 + 10
        (0.0, 40.0, 140),  # 50 + 2 * 40 < 100 + 40
        (0.0, 60.0, 170),  # 50 + 2 * 60 > 100 + 60
    ],
)
def test_the_last_piece_arrives_after_the_last_wait(
    per_mb: float, per_piece: float, done: float
) -> None:
    got = TWO.done(0.1, per_mb * MS_PER_MB, per_piece / 1000)
    assert got == pytest.approx(done / 1000)


def test_other_stages_add_what_one_piece_spends_in_them() -> None:
    # Half a ms/MB more for the piece that waited last: 50 + 60 + 15 < 100 + 30 + 15.
    assert TWO.done(0.1, MS_PER_MB, 0.0, 0.5 * MS_PER_MB) == pytest.approx(0.145)


def test_more_pieces_hide_more() -> None:
    # One tensor at the end hides nothing; the same bytes ready evenly hide all but the last quarter.
    late = pieces_of(((100 * MB, 1.0),), BUCKET_25)
    even = pieces_of(tuple((25 * MB, at) for at in (0.25, 0.5, 0.75, 1.0)), BUCKET_25)
    assert late.done(0.1, MS_PER_MB, 0.0) == pytest.approx(0.2)
    assert even.done(0.1, MS_PER_MB, 0.0) == pytest.approx(0.125)


def test_without_computing_pieces_follow_each_other() -> None:
    assert TWO.done(0.0, MS_PER_MB, 0.01) == pytest.approx(0.06 + 2 * 0.01)


def test_few_pieces_and_arrays_of_them_say_the_same() -> None:
    found = pieces_of(tuple((10_000_000 * (i + 1), (i + 1) / 8) for i in range(8)), 25_000_000)
    assert found.few
    for asked in ((0.1, 1e-9, 0.0, 0.0), (0.01, 2e-9, 1e-3, 5e-10), (1.0, 1e-12, 1e-6, 0.0)):
        assert replace(found, few=()).done(*asked) == pytest.approx(found.done(*asked))
