"""What the measured cases promise, without torch and without a network."""

import importlib
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from muster.model.job import Role
from muster.model.plan import Sync
from muster.model.profile import LayerType, ModelProfile, Tensor

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as the benchmarks themselves import it."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("support.cases")
    monkeypatch.delitem(sys.modules, "support.cases")
    return module


def test_there_are_enough_cases_and_no_two_are_the_same(cases: ModuleType) -> None:
    every = cases.all_cases()
    assert len(every) >= 16
    assert len({case.name for case in every}) == len(every)


def test_every_pair_is_of_one_kind_so_that_one_half_can_teach_the_other(cases: ModuleType) -> None:
    every = cases.all_cases()
    assert len(every) % 2 == 0
    for first, second in zip(every[::2], every[1::2], strict=True):
        kinds = {(case.plan.sync, case.plan.overlap) for case in (first, second)}
        assert len(kinds) == 1


def test_every_way_to_synchronise_is_there(cases: ModuleType) -> None:
    assert {case.plan.sync for case in cases.all_cases()} == set(Sync)


def test_placements_agree_with_plans_and_no_device_is_held_twice(cases: ModuleType) -> None:
    for case in (*cases.all_cases(), *cases.plan_cases()):
        for role in Role:
            assert case.placement.count(role) == case.plan.count(role)
        assert sum(held.bit_count() for held in case.placement.bits().values()) == case.plan.devices
        assert case.placement.nodes() <= {node.name for node in case.cluster.nodes}


def test_owners_shares_sum_to_one_and_there_is_one_for_each_owner(cases: ModuleType) -> None:
    for case in (*cases.all_cases(), *cases.plan_cases()):
        if case.plan.owners:
            role = Role.SERVER if case.plan.sync is Sync.DEDICATED else Role.WORKER
            owners = case.plan.count(role)
            assert sum(case.plan.owners) == pytest.approx(1)
            assert len(case.plan.owners) == owners


def test_water_filled_owners_let_all_links_finish_together(cases: ModuleType) -> None:
    rates = (400.0, 300.0, 250.0, 250.0)
    shares = cases.filled_owners(rates)
    done = [(1 + 2 * share) / rate for share, rate in zip(shares, rates, strict=True)]
    assert done == pytest.approx([done[0]] * 4)


def test_a_link_that_is_busy_without_owning_owns_nothing(cases: ModuleType) -> None:
    assert cases.filled_owners((200, 200, 200, 100))[3] == pytest.approx(0)


def test_shares_cut_a_bucket_without_gap_or_overlap(cases: ModuleType) -> None:
    ranges = cases.share_out(1_000_003, (0.2, 0.0, 0.5, 0.3))
    assert ranges[0][0] == 0 and ranges[-1][1] == 1_000_003
    assert all(before[1] == after[0] for before, after in pairwise(ranges))


def test_buckets_keep_the_order_of_readiness_and_every_tensor(cases: ModuleType) -> None:
    tensors = tuple(Tensor(f"t{i}", size, 0.1 * (i + 1)) for i, size in enumerate((10, 90, 100, 5)))
    dense = ((LayerType.DENSE, 1.0),)
    profile = ModelProfile("m", tensors, 1.0, 1, dense, samples=1, sample_bytes=1, batch=1)
    assert cases.buckets(profile, 100) == (("t0", "t1"), ("t2",), ("t3",))
