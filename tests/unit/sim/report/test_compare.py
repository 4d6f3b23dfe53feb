"""Policies side by side, as numbers and as tables."""

import json
from typing import Any

import pytest

from muster.files.errors import InputError
from muster.sim.report.compare import Comparison, compare, digest
from muster.sim.report.table import as_json, text
from muster.sim.result import Fate, JobResult, Result
from tests.unit.sim.report.made_up import record, result, sample

SAMPLES = (sample(0.0, capacity=2),)


def run(policy: str, *ends: float, seed: int = 1, turned: bool = False, **more: Any) -> Result:
    """Jobs a, b, ... of one device and 10 s alone, all submitted at 0, that end then."""
    jobs: list[JobResult] = [
        record(name, ended=end, started=end - 10.0) for name, end in zip("abcdefgh", ends, strict=False)
    ]
    return result(*(jobs[::-1] if turned else jobs), samples=SAMPLES, policy=policy, seed=seed, **more)


def compared(*results: Result, reference: str | None = None) -> Comparison:
    return compare([digest(each) for each in results], reference, count=200)


def test_policies_are_held_against_the_first_and_the_bound() -> None:
    # Means 30 and 20 s. Four jobs of 10 device-seconds on 2 devices: the machine ends one every 5 s,
    # 12.5 in the mean; each alone takes 10; mixed: mean moments 2.5, 7.5, 12.5, 17.5, half a job on 15.
    found = compared(run("slow", 15.0, 25.0, 35.0, 45.0), run("quick", 10.0, 10.0, 20.0, 40.0))
    slow, quick = found.rows
    assert found.reference == "slow"
    assert found.jobs == 4
    assert found.bounds is not None
    assert found.bounds.machine == pytest.approx(12.5)
    assert found.bounds.best == pytest.approx(15.0)
    assert slow.intervals["mean"].value == 30.0
    assert slow.to_bound == pytest.approx(2.0)
    assert quick.against is not None
    assert quick.against.value == pytest.approx(20 / 30)
    assert quick.against.low < quick.against.value < quick.against.high


def test_jobs_are_paired_by_name_whatever_their_order() -> None:
    found = compared(run("a", 10.0, 200.0, 30.0), run("b", 20.0, 400.0, 60.0, turned=True))
    assert found.rows[1].against is not None
    assert (found.rows[1].against.low, found.rows[1].against.high) == pytest.approx((2.0, 2.0))


def test_jobs_that_a_policy_did_not_finish_count_for_none() -> None:
    left = record("c", ended=None, fate=Fate.UNFINISHED)
    part = result(record("a"), record("b"), left, samples=SAMPLES, policy="part")
    found = compared(run("whole", 10.0, 20.0, 90.0), part)
    assert found.jobs == 2
    assert found.rows[0].intervals["mean"].value == 15.0
    assert "of the 2 jobs done under all policies, not 3" in found.notes[0]


def test_a_seed_that_one_policy_lacks_is_left_out() -> None:
    found = compared(run("a", 10.0), run("a", 10.0, seed=2), run("b", 10.0))
    assert found.seeds == (1,)
    assert found.notes == ("seeds 2 left out: not simulated under all policies",)


def test_figures_of_seeds_are_averaged_and_the_worst_kept() -> None:
    # One job alone on two devices: rho is T / 10.
    found = compared(run("a", 10.0), run("a", 40.0, seed=2)).rows[0].figures
    assert found["mean"] == 25.0
    assert found["rho_worst"] == 4.0


def test_a_note_is_said_once_or_with_its_policies() -> None:
    found = compared(run("a", 10.0, notes=("both", "one")), run("b", 10.0, notes=("both",)))
    assert found.notes == ("both", "a: one")


@pytest.mark.parametrize(
    ("results", "reference", "problem"),
    [
        ([], None, "nothing to compare"),
        ([run("a", 10.0)], "z", "'z' is not among the policies compared: a"),
        ([run("a", 10.0), run("b", 10.0, seed=2)], None, "no seed"),
    ],
)
def test_what_cannot_be_compared_is_said(
    results: list[Result], reference: str | None, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        compared(*results, reference=reference)


def test_nothing_done_is_a_table_of_dashes() -> None:
    nothing = result(record(ended=None, fate=Fate.UNFINISHED), samples=SAMPLES)
    lines = text(compared(nothing)).splitlines()
    assert lines[1].split()[:5] == ["fifo", "-", "-", "-", "-"]


def test_the_table_is_aligned_and_in_capitals() -> None:
    found = compared(run("slow", 15.0, 2500.0), run("quick", 10.0, 2000.0))
    heading, slow, quick, *_ = text(found).splitlines()
    assert heading.split()[:2] == ["POLICY", "MEAN"]
    assert "X SLOW" in heading
    assert slow.startswith("slow ")
    # Figures end below the end of their heading.
    end = heading.index("MEAN") + len("MEAN")
    assert slow[:end].endswith(" 1,258")
    assert quick[:end].endswith(" 1,005")
    assert "0.80" in quick


def test_a_policy_is_not_markup() -> None:
    found = compared(run("[red]a|b<i>", 10.0))
    assert "[red]a|b<i>" in text(found)


def test_json_has_everything_unrounded() -> None:
    found = json.loads(as_json(compared(run("a", 10.0, 20.5), run("b", 10.0, 11.0))))
    assert found["rows"][0]["intervals"]["mean"]["value"] == 15.25
    assert found["bounds"]["best"] == pytest.approx(10.0)
    assert found["hashes"] == {"a/1": "a-1", "b/1": "b-1"}
