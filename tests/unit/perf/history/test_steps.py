"""Corrections from steps that were predicted and measured."""

import pytest

from muster.model.plan import Overlap, Sync
from muster.perf.estimate import BadMeasurementError
from muster.perf.history.steps import Correction, StepHistory, Stepped


def step(ratio: float, job: str = "j", profile: str = "m", sync: Sync = Sync.RING) -> Stepped:
    """A step that took `ratio` times its prediction."""
    return Stepped(job, profile, sync, Overlap.FULL, 0.2, 0.2 * ratio)


def correction(
    *steps: Stepped,
    job: str = "j",
    profile: str = "m",
    sync: Sync = Sync.RING,
    overlap: Overlap = Overlap.FULL,
) -> Correction:
    """What these steps say for a job."""
    return StepHistory(steps).correction(job, profile, sync, overlap)


def test_with_nothing_shown_predictions_stand_within_a_quarter() -> None:
    found = correction()
    assert (found.factor, found.steps) == (1.0, 0)
    assert found.spread == pytest.approx(1.25)


@pytest.mark.parametrize("ratio", [0.6, 1.0, 1.4, 3.0])
def test_a_job_that_runs_on_is_predicted_as_it_runs(ratio: float) -> None:
    found = correction(*[step(ratio)] * 50)
    assert found.factor == pytest.approx(ratio, rel=0.01)
    assert found.steps == 50


def test_each_observation_brings_it_nearer() -> None:
    off = [abs(correction(*[step(1.5)] * n).factor - 1.5) for n in (0, 1, 2, 5, 20)]
    assert off == sorted(off, reverse=True)


def test_one_step_of_a_new_job_by_hand() -> None:
    # Log ratio r, one observation against a pull of one, three times over: r/2, 3r/4, 7r/8.
    assert correction(step(2.0)).factor == pytest.approx(2 ** (7 / 8))


def test_other_jobs_that_synchronise_alike_help_a_new_one() -> None:
    others = [step(1.5, job=f"o{i}", profile="other") for i in range(20)]
    assert correction(*others, job="new", profile="new").factor == pytest.approx(1.5, rel=0.05)


def test_the_same_model_counts_more_than_other_models() -> None:
    others = [step(2.0, job="o", profile="other") for _ in range(10)]
    same = [step(1.0, job="s") for _ in range(10)]
    found = correction(*others, *same, job="new").factor
    assert 1.0 < found < 1.1


def test_a_jobs_own_steps_count_most() -> None:
    same = [step(1.0, job="s") for _ in range(30)]
    own = [step(1.8) for _ in range(30)]
    assert correction(*same, *own).factor == pytest.approx(1.8, rel=0.02)


def test_another_way_of_synchronising_says_nothing() -> None:
    many = [step(2.0)] * 10
    assert correction(*many, sync=Sync.SHARDED) == correction()
    assert correction(*many, overlap=Overlap.NONE) == correction()


def test_a_question_for_no_job_uses_no_jobs_own_steps() -> None:
    nameless = [step(3.0, job="")] * 10
    named = [step(3.0, job="j")] * 10
    assert correction(*nameless, job="") == correction(*named, job="")


def test_the_interval_narrows_as_steps_agree_but_not_below_what_measurements_differ_by() -> None:
    spreads = [correction(*[step(1.3)] * n).spread for n in (0, 5, 20, 100)]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] == pytest.approx(1.03)


def test_steps_that_differ_keep_it_wide() -> None:
    agree, differ = [step(1.0)] * 40, [step(0.7), step(1.4)] * 20
    assert correction(*differ).spread > 1.3 > correction(*agree).spread


@pytest.mark.parametrize("seconds", [0.0, -0.1, float("nan"), float("inf")])
def test_steps_that_cannot_be_are_refused(seconds: float) -> None:
    with pytest.raises(BadMeasurementError):
        Stepped("j", "m", Sync.RING, Overlap.FULL, 0.1, seconds)
    with pytest.raises(BadMeasurementError):
        Stepped("j", "m", Sync.RING, Overlap.FULL, seconds, 0.1)
