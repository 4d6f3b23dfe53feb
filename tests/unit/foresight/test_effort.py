"""How much is played of a question."""

from muster.foresight.effort import CYCLES, MOST, WORLDS, Effort


def test_few_jobs_are_played_as_finely_as_times_are_told() -> None:
    assert Effort.for_jobs(20) == Effort(WORLDS, CYCLES)
    assert Effort.for_jobs(0) == Effort(WORLDS, CYCLES)


def test_a_question_about_many_jobs_costs_no_more_than_one_about_some() -> None:
    for jobs in (100, 300, 1000):
        effort = Effort.for_jobs(jobs)
        assert jobs * effort.worlds * effort.cycles <= MOST
        assert effort.worlds >= 8


def test_worlds_go_before_steps_become_coarse() -> None:
    some, many = Effort.for_jobs(130), Effort.for_jobs(1000)
    assert some.worlds < WORLDS and some.cycles == CYCLES
    assert many.cycles < CYCLES and many.coarse > some.coarse


def test_nobody_gets_more_worlds_than_asked_for() -> None:
    assert Effort.for_jobs(10, 4).worlds == Effort.for_jobs(1000, 4).worlds == 4
