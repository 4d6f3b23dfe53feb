"""Changes take in the future what they took in the past, give or take what they differed by."""

from dataclasses import replace
from statistics import median

import pytest

from muster.foresight.changing import Transition
from muster.foresight.delays import TransitionDelays
from muster.foresight.drawn_times import DrawnTimes
from muster.foresight.draws import WorldDraws
from muster.foresight.past import Past, PastJob
from muster.model.decision import Kind
from muster.model.job import Job
from muster.model.outlook import Outlook, Table
from muster.model.view import JobState, Phase
from tests.builders import cluster, job, placement, running, view

NODE = cluster(1)
ONE, TWO = placement(("n0", 1)), placement(("n0", 1), ("n0", 2))


def _followed(*states: tuple[float, JobState | None], outlook: Outlook | None = None) -> PastJob:
    """The past of a job that was seen in these states."""
    past = Past()
    for at, state in states:
        seen = view(NODE, [] if state is None else [state])
        if outlook is not None and state is not None:
            seen = replace(seen, outlooks={state.number: replace(outlook)})
        past.follow(seen, at)
    (found,) = past
    return found


def test_what_each_change_took_is_seen_from_view_to_view() -> None:
    state = running(job("j", 1, most=2, number=1), ONE)
    starting = replace(state, phase=Phase.STARTING, since=10.0)
    joining = replace(state, phase=Phase.RESIZING, target=TWO, generation=state.generation + 1)
    joined = replace(state, placement=TWO, generation=joining.generation)
    stopping = replace(joined, phase=Phase.PREEMPTING)
    stopped = replace(state, phase=Phase.WAITING, placement=None, since=None)
    found = _followed(
        (12.0, starting), (18.0, joining), (25.0, joined), (30.0, stopping), (33.0, stopped)
    )
    assert found.changes == [(Transition.START, 8.0), (Transition.JOIN, 7.0), (Transition.STOP, 3.0)]


def test_what_happens_between_two_views_takes_no_time() -> None:
    state = running(job("j", 1, number=1), ONE)
    waiting = replace(state, phase=Phase.WAITING, placement=None, since=None)
    assert _followed((0.0, waiting), (5.0, state)).changes == [(Transition.START, 0.0)]


def test_processes_end_after_the_last_of_the_work() -> None:
    """Twenty steps at two a second are done at 110 s; the job is gone at 114."""
    state = running(job("j", 1, number=1), ONE)
    sure = Outlook(20.0, Table((2.0,)), 0.05, here=2.0, told=True)
    found = _followed((100.0, state), (114.0, None), outlook=sure)
    ((change, seconds),) = found.changes
    assert change is Transition.END and seconds == pytest.approx(4.0)


def _times(world: int, *seconds: float, application: str = "a") -> DrawnTimes:
    asked = job("old", 1, application=application)
    past = [PastJob(asked, 0.0, changes=[(Transition.START, each) for each in seconds])]
    return DrawnTimes(view(NODE, []), TransitionDelays(past), str(world))


def _starts(*seconds: float, passed: float = 0.0) -> list[float]:
    """What a start takes in many worlds after these were seen."""
    asked = job("new", 1, application="a", number=7)
    return [
        _times(world, *seconds).takes(asked, Kind.START, 1, first=True, passed=passed)
        for world in range(200)
    ]


def test_starts_are_drawn_around_those_seen_and_vary_as_they_did() -> None:
    steady, varied = _starts(*[9.0, 10.0, 11.0] * 10), _starts(*[4.0, 10.0, 25.0] * 10)
    assert median(steady) == pytest.approx(10.0, rel=0.1)
    assert max(steady) - min(steady) < max(varied) - min(varied)


def test_a_start_that_has_taken_long_takes_longer() -> None:
    """Of starts of about 10 s one that has taken 30 is not done now: it takes some more."""
    late = _starts(*[8.0, 10.0, 12.0], passed=30.0)
    assert min(late) >= 0.0 and median(late) > 1.0


def test_where_changes_took_no_time_none_is_drawn() -> None:
    assert set(_starts(0.0, 0.0, 0.0)) == {0.0}


def _pause(asked: Job, kind: Kind, outlook: Outlook | None = None, *joined: float) -> float:
    """What a change of this job costs beyond its delay, after others took this long to join."""
    changes = [(Transition.JOIN, each) for each in joined]
    past = [PastJob(job("old", 1, application="a"), 0.0, changes=changes)]
    seen = view(NODE, [running(asked, ONE)])
    if outlook is not None:
        seen = replace(seen, outlooks={asked.number: outlook})
    return DrawnTimes(seen, TransitionDelays(past), "0").pause(asked, kind)


def test_loading_beside_workers_that_train_on_is_not_paid_twice() -> None:
    """A change is said to cost 5 s, which is loading: new workers take them to join."""
    live = job("j", 1, most=4, number=7, pause=5.0, application="a")
    assert _pause(live, Kind.RESIZE) == 0.0
    assert _pause(live, Kind.RESIZE, None, 2.0, 2.0, 2.0) == pytest.approx(3.0)
    assert _pause(live, Kind.RESIZE, None, 0.0) == 5.0  # nobody loads apart: so it is a pause
    measured = Outlook(10.0, Table((1.0,)), resize=0.05)
    assert _pause(live, Kind.RESIZE, measured) == 0.05


def test_who_was_resized_a_moment_ago_trains_on() -> None:
    """Its new workers had loaded before they joined; nobody has measured yet what joining costs."""
    asked = job("j", 1, most=4, number=7, pause=5.0, application="a")
    state = replace(running(asked, TWO), since=100.0)
    resized = replace(state, generation=state.generation + 1)
    for each, resumes in ((state, 105.0), (resized, 100.0)):
        past, seen = Past(), view(NODE, [each])
        past.follow(seen, 101.0)
        (underway,) = WorldDraws(seen, 101.0, past, 1).underway(0).values()
        assert underway.resumes == resumes


def test_a_job_that_restarts_loads_without_progress() -> None:
    asked = job("j", 1, most=4, number=7, pause=5.0, application="a", restarts=True)
    assert _pause(asked, Kind.RESIZE) == 5.0
    assert _pause(asked, Kind.RESIZE, Outlook(10.0, Table((1.0,)), resize=0.05, start=9.0)) == 9.0
