"""What a person reads."""

import pytest

from muster.cli.render.words import clock, describe, short
from muster.core.cycle.outcome import MigrationReport
from muster.core.why.words import tell, where
from muster.model.job import Role
from muster.model.reason import Code, Holder, Quantity, Reason, RequestChange, Shortfall
from muster.model.topology import Level
from tests.builders import cluster, job, placement, slot, view
from tests.numbers import number


def test_a_wait_for_room_names_figures_holders_and_the_way_out() -> None:
    reason = Reason(
        Code.WAITING_FRAGMENTED,
        shortfall=Shortfall(asked=8, free=16, largest=6, widest=Level.NODE),
        holders=(Holder("bert", "research", 4), Holder("vgg", "research", 2)),
        would_start=RequestChange("locality", "rack"),
    )
    assert tell(reason) == (
        "enough devices are free, but too far apart for its locality contract; "
        "needs 8, 16 free, at most 6 within one node; held by bert (4), vgg (2); "
        "would start now with locality: rack"
    )


def test_a_wait_for_quota_names_the_pool_that_binds() -> None:
    reason = Reason(Code.WAITING_LIMIT, quantity=Quantity("research", "P100", 16, 20, 20))
    assert tell(reason).endswith("needs 16, pool research uses 20 of 20 P100")


def test_a_wait_behind_an_older_job_names_it() -> None:
    assert tell(Reason(Code.WAITING_PROMISE, beneficiary="old")).endswith("kept for old")


def test_a_migration_names_whom_it_serves_and_what_it_costs_and_gains() -> None:
    reason = Reason(Code.MIGRATED, beneficiary="big", cost=60.0, gain=4800.0)
    assert tell(reason).endswith("for big; costs 60 device-seconds, gains 4,800")


def test_a_migration_is_reported_with_fragmentation_before_and_after() -> None:
    report = MigrationReport(number("big"), (number("a"), number("b")), 60.0, 4800.0, 0.5, 0.25)
    seen = view(cluster(1), [job("a"), job("b"), job("big")])
    assert describe(report, seen) == (
        "migration for big: a, b moved; costs 60 device-seconds, gains 4,800; fragmentation 50% -> 25%"
    )


def test_a_contract_of_any_level_names_no_level() -> None:
    reason = Reason(Code.WAITING_DEVICES, shortfall=Shortfall(8, 3, 3, Level.CLUSTER))
    assert tell(reason).endswith("needs 8, 3 free, at most 3")


def test_a_place_is_nodes_with_ranges_of_devices() -> None:
    server = slot("n2", 0, role=Role.SERVER)
    placed = placement(("n0", 0b1111), ("n1", 0b100001), server)
    assert where(placed) == "n0[0-3] n1[0,5] n2"


@pytest.mark.parametrize(
    ("seconds", "written"), [(0, "0s"), (59.4, "59s"), (270, "4m30s"), (3900, "1h05m"), (7200, "2h00m")]
)
def test_times_are_short(seconds: float, written: str) -> None:
    assert clock(seconds) == written


def test_pauses_are_told_in_the_unit_they_have() -> None:
    assert [short(s) for s in (0.0, 0.0004, 0.0124, 0.9, 3.42)] == [
        "0",
        "1 ms",
        "12 ms",
        "900 ms",
        "3.4s",
    ]
