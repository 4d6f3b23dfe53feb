"""What steps tell of neighbours: by what is shared and by kind, and how soon lies are corrected."""

from collections.abc import Iterable
from math import exp
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.slowdowns import PRIOR, Common
from muster.perf.history.neighbours import REPORTS, Encounter, Encounters, Rival

SWITCH, NODE = Common.SWITCH, Common.NODE
LOUD, QUIET = "loud", "quiet"


def met(
    kind: str, beside: Rival | None, step: float, *, setting: str = "", at: float = 0.0
) -> Encounter:
    return Encounter(setting or f"{kind} on n0", kind, beside, step, at)


def told(encounters: Iterable[Encounter]) -> Encounters:
    found = Encounters()
    for each in encounters:
        found.add(each)
    return found


def beside(found: Encounters, common: Common, own: str, other: str) -> float:
    return found.slowdowns({1: own, 2: other}).beside(common, 1, 2)


def test_without_reports_neighbours_cost_what_the_literature_says() -> None:
    assert beside(Encounters(), SWITCH, LOUD, QUIET) == pytest.approx(PRIOR[SWITCH])
    assert beside(Encounters(), NODE, LOUD, QUIET) < PRIOR[SWITCH]


def test_steps_that_got_longer_beside_a_neighbour_tell_by_how_much() -> None:
    alone = [met("a", None, 1.0) for _ in range(REPORTS)]
    crowded = [met("a", Rival(NODE, LOUD), 1.5) for _ in range(REPORTS)]
    found = told([*alone, *crowded])
    assert beside(found, NODE, "a", LOUD) == pytest.approx(0.5, rel=0.1)
    assert found.seen("a on n0", Rival(NODE, LOUD)) == pytest.approx(0.5)


def test_kinds_of_neighbours_are_told_apart() -> None:
    reports = []
    for _ in range(REPORTS):
        reports += [
            met("a", None, 1.0),
            met("a", Rival(NODE, LOUD), 1.5),
            met("a", Rival(NODE, QUIET), 1.0),
        ]
    found = told(reports)
    assert beside(found, NODE, "a", LOUD) > 0.4
    assert beside(found, NODE, "a", QUIET) < 0.05


def test_an_unknown_pair_is_like_any_two_jobs_that_share_as_much() -> None:
    reports = []
    for kind in "abcdef":
        for _ in range(REPORTS):
            reports += [met(kind, None, 1.0), met(kind, Rival(SWITCH, LOUD), 1.4)]
    found = told(reports)
    assert beside(found, SWITCH, "x", "y") == pytest.approx(0.4, rel=0.1)
    assert beside(found, NODE, "x", "y") == pytest.approx(PRIOR[NODE])  # nobody shared so little


def test_another_setting_is_no_comparison() -> None:
    """A job that was alone on fast devices and crowded on slow ones says nothing."""
    reports = [met("a", None, 1.0, setting="fast"), met("a", Rival(NODE, LOUD), 3.0, setting="slow")]
    found = told(reports * REPORTS)
    assert beside(found, NODE, "a", LOUD) == pytest.approx(PRIOR[NODE])
    assert found.seen("slow", Rival(NODE, LOUD)) is None


def test_one_bad_machine_does_not_spoil_what_the_others_show() -> None:
    reports = []
    for i in range(12):
        longer = 4.0 if i == 0 else 1.1
        reports += [
            met("a", None, 1.0, setting=f"n{i}"),
            met("a", Rival(NODE, LOUD), longer, setting=f"n{i}"),
        ]
    assert beside(told(reports * 3), NODE, "a", LOUD) == pytest.approx(0.1, abs=0.05)


def test_a_job_never_alone_is_compared_with_its_mildest_neighbour() -> None:
    mild, bad = Rival(NODE, QUIET), Rival(SWITCH, LOUD)
    found = told([met("a", mild, 1.0), met("a", bad, 1.5)] * REPORTS)
    assert beside(found, SWITCH, "a", LOUD) == pytest.approx(0.5, abs=0.1)


def test_noise_alone_slows_nobody_beyond_doubt() -> None:
    random = Random(7)
    found = Encounters()
    for i in range(200):
        step = random.lognormvariate(0.0, 0.05)
        found.add(met("a", Rival(NODE, LOUD) if i % 2 else None, step, setting=f"n{i % 10}"))
    assert found.shown("a", Rival(NODE, LOUD)) == pytest.approx(0.0, abs=0.01)
    assert Encounters().shown("a", Rival(NODE, LOUD)) == 0.0


def test_what_was_shown_long_ago_counts_for_little() -> None:
    month = 30 * 86400.0
    found = told([met("a", None, 1.0), met("a", Rival(NODE, LOUD), 3.0)] * REPORTS)
    for _ in range(REPORTS):  # a month later others show little
        found.add(met("b", None, 1.0, at=month))
        found.add(met("b", Rival(NODE, QUIET), 1.05, at=month))
    assert beside(found, NODE, "a", LOUD) < 0.1


@given(
    lies=st.lists(st.floats(0.1, 10.0), max_size=40),
    truth=st.floats(1.0, 2.0),
    noise=st.randoms(use_true_random=False),
)
def test_lies_by_ten_are_corrected_after_as_many_truths_as_outvote_them(
    lies: list[float], truth: float, noise: Random
) -> None:
    found = Encounters()
    for lie in lies:
        found.add(met("a", Rival(NODE, LOUD), lie))
        found.add(met("a", None, 1 / lie))
    for _ in range(REPORTS // 2 + 1):
        found.add(met("a", None, exp(noise.uniform(-0.02, 0.02))))
        found.add(met("a", Rival(NODE, LOUD), truth * exp(noise.uniform(-0.02, 0.02))))
    assert found.seen("a on n0", Rival(NODE, LOUD)) == pytest.approx(truth - 1, abs=0.1 * truth)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([*Common, None]), st.floats(1e-3, 1e3)))
)
def test_whatever_is_reported_a_neighbour_costs_between_nothing_and_four_times(
    reports: list[tuple[str, Common | None, float]],
) -> None:
    found = told(met(kind, Rival(c, LOUD) if c else None, step) for kind, c, step in reports)
    for common in Common:
        for own in "abc":
            assert 0.0 <= beside(found, common, own, LOUD) <= 3.0 + 1e-9
