"""How much slower one device type is than another."""

import pytest

from muster.perf.learnt.ratios import slower


def test_without_data_sheets_what_was_seen_decides() -> None:
    assert slower("old", "new", []) == 1.0
    assert slower("old", "new", [4.0]) == pytest.approx(4.0)
    assert slower("old", "new", [2.0, 8.0]) == pytest.approx(4.0)


def test_the_data_sheet_counts_as_one_application_more() -> None:
    # An A100 is rated at 19.5 and a T4 at 8.1 Tflop/s in single precision.
    assert slower("T4", "A100", []) == pytest.approx(19.5 / 8.1)
    assert slower("T4", "A100", [4.0]) == pytest.approx((19.5 / 8.1 * 4.0) ** 0.5)
