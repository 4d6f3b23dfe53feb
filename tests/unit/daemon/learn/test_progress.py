"""How far jobs are, from what their tasks say."""

from dataclasses import replace
from itertools import pairwise
from math import nan

import pytest

from muster.daemon.learn import KINDS, Beliefs, Progress
from muster.daemon.learn.progress import POINTS
from muster.store.batch import Note
from muster.wire.tasks.messages import Changed, Saved
from tests.builders import job
from tests.unit.daemon.crews import Crew


@pytest.fixture
def beliefs() -> Beliefs:
    return Beliefs({"cpu": 8})


@pytest.fixture
def crew(beliefs: Beliefs) -> Crew:
    made = Crew(beliefs, job("a", most=8, command=("python", "train.py"), number=1))
    made.start((2,))
    made.capture(steps=500)
    return made


def told(crew: Crew) -> Progress:
    found = crew.beliefs.progress(crew.job.number, crew.now)
    assert found is not None
    return found


def test_a_job_that_says_nothing_has_no_progress(beliefs: Beliefs) -> None:
    assert beliefs.progress(1) is None
    assert beliefs.losses(1) == ()
    beliefs.holds(job("a", number=1), None, 5.0)
    assert beliefs.progress(1) is None


def test_steps_are_counted_once_however_often_they_are_said(crew: Crew) -> None:
    crew.train(40, 0.5)
    before = told(crew)
    assert (before.step, before.steps, before.samples) == (40, 500, 40 * 64)
    assert before.loss == 1 / 40
    # Over the last ten seconds: 64 samples each half second.
    assert before.rate == pytest.approx(128, rel=0.1)
    for message in list(crew.heard):
        crew.beliefs.hear(crew.job, message, crew.now)
    assert told(crew) == before
    assert crew.beliefs.progress(1, crew.now + 60) == replace(before, rate=0.0)


def test_pauses_of_plans_and_failures_add_up(crew: Crew) -> None:
    crew.train(5, 0.1)
    crew.resize((3,), pause=0.25)
    crew.say(Changed("worker-0", 2, 5, crew.names, 0.75, "plan"))  # the longest counts
    crew.say(Changed("worker-2", 2, 5, crew.names, 9.0, "start"))  # a joiner's wait for its plan
    crew.train(5, 0.1)
    crew.resize((2,), "failure", pause=2.0)
    assert (told(crew).pause, told(crew).resizes) == (2.75, 1)


def test_a_job_that_is_started_again_goes_on_from_its_checkpoint(crew: Crew) -> None:
    crew.train(30, 0.1)
    crew.resize((3,), pause=0.25)
    crew.say(Saved("worker-0", 20, "/x", 0.1))
    crew.train(10, 0.1)
    late = crew.done("worker-0", 0.1)
    crew.stop()
    crew.start((1,), step=20)
    crew.train(1, 0.1)
    assert (told(crew).step, told(crew).saved) == (21, 20)
    # What those of before say late changes nothing.
    crew.say(replace(late, step=41), Changed("worker-0", 9, 41, ("worker-0",), 1.0, "plan"))
    crew.train(1, 0.1)
    assert (told(crew).step, told(crew).pause, told(crew).resizes) == (22, 0.25, 1)


def test_what_is_said_before_the_daemon_knows_that_it_runs_counts(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, job("a", number=1))
    crew.names, crew.formation = ("worker-0",), 1
    crew.say(Changed("worker-0", 1, 0, crew.names, 0.0, "start"))
    crew.train(2, 0.1)
    crew.resize((1,), "start")
    crew.train(2, 0.1)
    assert told(crew).step == 4


def test_a_step_that_a_failure_undid_is_done_again(crew: Crew) -> None:
    crew.train(30, 0.1)
    crew.step = 10  # all but one were lost, and it went back to a checkpoint
    crew.resize((1,), "failure")
    crew.train(1, 0.1)
    assert told(crew).step == 11


def test_losses_keep_their_shape_in_little_room(crew: Crew) -> None:
    crew.train(3_000, 0.01)
    found = crew.beliefs.losses(1, most=50)
    steps = [step for step, _ in found]
    assert len(found) <= 50
    assert (steps[0] < 100, steps[-1]) == (True, 3_000)
    assert all(loss == 1 / step for step, loss in found)
    gaps = [after - before for before, after in pairwise(steps)]
    assert max(gaps) <= 150
    assert len(crew.beliefs.losses(1, most=10_000)) <= POINTS + 1


def test_a_loss_that_is_no_number_is_none(crew: Crew) -> None:
    crew.train(1, 0.1)
    crew.say(replace(crew.done("worker-0", 0.1), step=2, loss=nan))
    assert (told(crew).step, told(crew).loss) == (2, None)


def test_the_next_daemon_goes_on_counting(crew: Crew) -> None:
    crew.train(30, 0.5)
    crew.resize((3,), pause=0.25)
    crew.train(200, 0.5)
    before = told(crew)
    after = Beliefs({"cpu": 8})
    after.restore(crew.beliefs.observations())
    for message in crew.heard[-50:]:
        after.hear(crew.job, message, crew.now)  # said again, since nobody has answered
    crew.beliefs = after
    assert told(crew).steps == 500
    assert told(crew).resizes == 1
    assert (told(crew).step, told(crew).pause) == (before.step, before.pause)
    crew.train(1, 0.5)
    assert told(crew).step == before.step + 1


def test_another_job_of_the_same_name_begins_from_nothing(crew: Crew) -> None:
    crew.train(30, 0.1)
    notes = crew.beliefs.observations()
    again = job("a", most=8, number=2)
    crew.beliefs.ended(crew.job, crew.now, succeeded=True)
    crew.beliefs.holds(again, None, crew.now)
    other = Crew(crew.beliefs, again)
    other.start()
    other.train(1, 0.1)
    assert told(other).step == 1
    # Nor does a daemon after that take the one for the other.
    after = Beliefs({"cpu": 8})
    after.restore(notes)
    other.beliefs = after
    other.train(1, 0.1)
    assert (told(other).step, told(other).steps) == (2, None)


def test_a_job_that_is_over_is_forgotten(crew: Crew) -> None:
    crew.train(1, 0.1)
    crew.beliefs.ended(crew.job, crew.now, succeeded=False)
    assert crew.beliefs.progress(crew.job.number) is None
    assert crew.beliefs.losses(crew.job.number) == ()


def test_notes_that_make_no_sense_are_passed_over(beliefs: Beliefs) -> None:
    for kind in (*KINDS, "other"):
        for body in (b"", b"{", b"[]", b'{"type":"step"}', b'{"type":"end","kin":{}}', b"\xff"):
            beliefs.restore([Note(kind, "x", 1.0, body)])
    assert beliefs.links().observed == ()
    assert beliefs.observations() == []
