"""The future played forward from a view."""

from dataclasses import replace
from math import inf

import pytest

from muster.core.state.evolve import evolve
from muster.foresight.asked_run import AskedRun
from muster.foresight.draws import WorldDraws
from muster.foresight.forecaster import Forecaster
from muster.foresight.past import Past
from muster.foresight.play import JobForecast, Present, foresee, play
from muster.model.event import NodeLost
from muster.model.job import Program
from muster.model.outlook import Outlook, Table
from muster.model.pool import single_pool
from muster.model.view import JobState, Phase
from muster.policy.registry import POLICIES
from muster.sim.beliefs import Oracle
from muster.sim.engine import Engine, Setting
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed
from tests.builders import cluster, job, placement, running, view

HOUR = 3600.0


def _setting(policy: str = "fifo", nodes: int = 1) -> Setting:
    machines = cluster(nodes)
    pools = single_pool(machines.devices_by_type())
    return Setting(machines, pools, POLICIES[policy], beliefs=Oracle)


def _jobs(*asked: tuple[float, int, float]) -> list[Arrival]:
    """Jobs by submission, devices and s."""
    return [
        Arrival(at, job(f"j{n}", devices, number=n), Fixed(seconds, devices))
        for n, (at, devices, seconds) in enumerate(asked, 1)
    ]


def _asked(arrivals: list[Arrival], at: float, setting: Setting) -> tuple[Present, Past]:
    forecaster = Forecaster()
    present = next(iter(AskedRun(setting, arrivals, forecaster).presents([at])))
    return present, forecaster.past


def test_what_is_certain_comes_true_in_every_world() -> None:
    """An oracle knows lengths; the queue alone decides, and no job comes that was not there."""
    arrivals = _jobs((0.0, 8, 1000.0), (1.0, 8, 500.0), (2.0, 8, 200.0))
    setting = _setting("srtf")
    present, seen = _asked(arrivals, 2.0, setting)
    engine = Engine(setting, arrivals)
    for _ in engine.frames():
        pass
    came = {life.job.number: at for life, at in engine.ended}
    found = foresee(present, seen, worlds=4)
    assert {n: each.finish.middle for n, each in found.items()} == pytest.approx(came, rel=0.1)
    assert all(each.finish.high - each.finish.low < 10.0 for each in found.values())


def test_a_job_behind_another_starts_when_that_may_end() -> None:
    """Twenty jobs took 10 to 200 minutes: one that waits for a job of their kind starts within that."""
    past = [(n * 300.0 * HOUR, 8, (n + 1) * 600.0) for n in range(20)]
    arrivals = _jobs(*past, (6000 * HOUR, 8, HOUR), (6000 * HOUR + 60, 8, HOUR))
    present, seen = _asked(arrivals, 6000 * HOUR + 60, _setting())
    found = foresee(present, seen)
    start = found[22].start
    assert start is not None and found[21].start is None
    assert 600.0 - 60 <= start.low - present.now < start.high - present.now <= 2 * 12_000.0
    assert found[22].finish.middle > start.middle
    assert found[22].jobs == 20


def test_a_start_beyond_the_horizon_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs now takes longer than is played: the job behind it starts nobody knows when."""
    monkeypatch.setattr("muster.foresight.play.HORIZON", HOUR)
    asked = _jobs((0.0, 8, 3 * HOUR), (60.0, 8, 4 * HOUR))
    present, _ = _asked(asked, 60.0, _setting("srtf"))
    found = foresee(present, Past(), worlds=4)
    assert found[1].finish.middle == pytest.approx(3 * HOUR, rel=0.1)
    assert found[2].known_start is None and found[2].known_finish is None
    assert found[2].start is not None and found[2].start.low == inf


def test_the_same_world_is_drawn_whatever_is_asked() -> None:
    """A drained queue differs from a full one by the queue alone: a job keeps its length."""
    arrivals = _jobs(*((n * 4 * HOUR, 4, (n % 7 + 1) * 900.0) for n in range(30)))
    present, past = _asked(arrivals, arrivals[-1].at, _setting())
    one, other = (WorldDraws(present.view, present.now, past, 8) for _ in range(2))
    without = replace(present.view, jobs={30: present.view.jobs[30]}, names={})
    alone = WorldDraws(without, present.now, past, 8)
    for world in range(8):
        assert one.underway(world)[30] == other.underway(world)[30] == alone.underway(world)[30]
        assert play(present, one, world) == play(present, other, world)


def test_a_job_that_has_run_for_three_hours_is_not_a_new_one() -> None:
    """Half of the jobs take ten minutes, half four hours: after three hours it is one of these."""
    past = [(n * 5 * HOUR, 8, 600.0 if n % 2 else 4 * HOUR) for n in range(40)]
    arrivals = _jobs(*past, (200 * HOUR, 8, 4 * HOUR), (203 * HOUR, 8, 600.0))
    present, seen = _asked(arrivals, 203 * HOUR, _setting())
    draws = WorldDraws(present.view, present.now, seen, 16)
    old, new = ([draws.underway(i)[n].truth.work for i in range(16)] for n in (41, 42))
    assert present.view.jobs[41].phase is Phase.RUNNING
    assert sum(each == pytest.approx(HOUR, rel=0.05) for each in old) >= 12
    assert sum(each == pytest.approx(600.0, rel=0.05) for each in new) >= 6
    assert sum(each == pytest.approx(4 * HOUR, rel=0.05) for each in new) >= 6


def test_a_job_that_reports_how_far_it_is_ends_by_that_and_not_like_others() -> None:
    """Ten jobs of the user took ten minutes; this one says that four hours of its steps are left."""
    past = [(n * HOUR, 8, 600.0) for n in range(10)]
    present, seen = _asked(_jobs(*past, (20 * HOUR, 8, 4 * HOUR)), 20 * HOUR, _setting())
    outlook = Outlook(4 * HOUR, Table((1.0,)), spread=0.1, told=True)
    view = replace(present.view, outlooks={11: outlook})
    draws = WorldDraws(view, present.now, seen, 16)
    assert draws.basis(11) == 0
    assert all(2 * HOUR < draws.underway(i)[11].truth.work < 8 * HOUR for i in range(16))


def test_jobs_come_as_they_came() -> None:
    """Every day ten jobs at noon: the next ten come at noon, and as large."""
    day = 24 * HOUR
    arrivals = _jobs(*((d * day + 12 * HOUR + i, 2, 600.0) for d in range(3) for i in range(10)))
    present, past = _asked([*arrivals, *_late(arrivals, 3 * day)], 3 * day, _setting())
    draws = WorldDraws(present.view, present.now, past, 4)
    next_day = [[each for each in draws.arrivals(i) if each.at < 4 * day] for i in range(4)]
    assert sum(len(each) >= 9 for each in next_day) >= 3  # the very first lies in no stretch
    first = [each for world in next_day for each in world]
    assert all(12 * HOUR <= each.at % day < 12 * HOUR + 60 for each in first)
    assert all(each.job.workers.gang == 2 for each in first)


def test_a_few_worlds_repeat_each_part_of_a_short_past_as_often() -> None:
    """One of forty jobs is large: of sixteen worlds some have it in the next stretch, never many."""
    submitted = [(10.0 * n, 8 if n == 20 else 1, 5.0) for n in range(41)]
    present, past = _asked(_jobs(*submitted), 400.0, _setting())
    for seed in range(20):
        draws = WorldDraws(present.view, present.now, past, 16, seed)
        soon = [each for i in range(16) for each in draws.arrivals(i) if each.at < 450.0]
        assert 1 <= sum(each.job.workers.gang == 8 for each in soon) <= 4


def test_jobs_from_before_anybody_looked_come_again_in_no_stretch() -> None:
    """A daemon that was restarted knows its live jobs, but not how often jobs come."""
    arrivals = _jobs((0.0, 8, 1000.0), (1.0, 8, 500.0))
    present, _ = _asked(arrivals, 1.0, _setting())
    past = Past()
    past.follow(present.view, present.now + 300.0)
    past.follow(present.view, present.now + 600.0)
    draws = WorldDraws(present.view, present.now + 600.0, past, 4)
    assert list(draws.arrivals(0)) == []


def test_a_job_from_the_very_moment_that_somebody_began_to_look_comes_again_in_no_stretch() -> None:
    present, past = _asked(_jobs((0.0, 8, 3 * HOUR), (60.0, 8, 600.0)), 60.0, _setting())
    draws = WorldDraws(present.view, present.now, past, 4)
    assert list(draws.arrivals(0)) == []


def _late(before: list[Arrival], at: float) -> list[Arrival]:
    number = len(before) + 1
    return [Arrival(at, job("late", 1, number=number), Fixed(600.0, 1))]


DAY = 24 * HOUR


def _kept_back(present: Present, number: int, until: float) -> Present:
    """The same, with a job that may not start before a moment."""
    jobs = dict(present.view.jobs)
    jobs[number] = replace(jobs[number], not_before=until)
    return replace(present, view=replace(present.view, jobs=jobs))


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
def test_a_job_that_may_not_start_yet_starts_when_it_may(policy: str) -> None:
    """Two devices of eight are in use and a job waits for eight of them; one of four, for a month."""
    asked = _jobs((0.0, 2, 3 * HOUR), (60.0, 8, HOUR), (61.0, 4, HOUR))
    present, _ = _asked(asked, 61.0, _setting(policy))
    until = present.now + 20 * DAY
    found = foresee(_kept_back(present, 3, until), Past(), worlds=4)
    assert found[3].start is not None
    assert found[3].start.low == pytest.approx(until, rel=0.01)
    assert found[3].start.low >= until
    assert found[3].finish.middle >= until
    assert found[2].finish.middle < present.now + 5 * HOUR, "it keeps nobody else"


def test_a_start_set_by_a_date_is_neither_corrected_nor_held_to_account() -> None:
    """What was learnt of queues says nothing of the day on which a month begins."""
    asked = _jobs((0.0, 2, 3 * HOUR), (61.0, 4, HOUR))
    forecaster = Forecaster()
    present = next(iter(AskedRun(_setting("srtf"), asked, forecaster).presents([61.0])))
    late = _kept_back(present, 2, present.now + 20 * DAY)
    raw, told = forecaster.both(late)
    assert told[2] == raw[2]
    assert 2 not in {each.number for each in forecaster.taken()}
    forecaster.ask(present)
    assert 2 in {each.number for each in forecaster.taken()}, "once the queue decides"


def _with_session(present: Present, number: int, limit: float | None) -> Present:
    """The same, with a job that is a session with this time limit."""
    jobs = dict(present.view.jobs)
    asked = replace(jobs[number].job, program=Program(interactive=0.0, time=limit))
    jobs[number] = replace(jobs[number], job=asked)
    return replace(present, view=replace(present.view, jobs=jobs))


def test_nobody_knows_when_the_user_of_a_session_leaves() -> None:
    asked = _jobs((0.0, 2, 3 * HOUR), (60.0, 8, HOUR))
    forecaster = Forecaster()
    present = next(iter(AskedRun(_setting("srtf"), asked, forecaster).presents([60.0])))
    for number in (1, 2):  # one that runs, one that waits
        found = forecaster.ask(_with_session(present, number, None))[number]
        assert found.known_finish is None
        assert found.finish.low == inf
        assert (found.known_start is None) == (number == 1)
        assert (number, "finish") not in {(each.number, each.what) for each in forecaster.taken()}


def test_a_session_ends_by_its_time_limit() -> None:
    asked = _jobs((0.0, 2, 3 * HOUR), (60.0, 8, HOUR))
    forecaster = Forecaster()
    present = next(iter(AskedRun(_setting("srtf"), asked, forecaster).presents([60.0])))
    runs = forecaster.ask(_with_session(present, 1, 5 * HOUR))[1]
    assert runs.known_finish is not None
    assert runs.known_finish.middle == 5 * HOUR
    waits = forecaster.ask(_with_session(present, 2, 5 * HOUR))[2]
    assert waits.known_start is not None and waits.known_finish is not None
    assert waits.known_finish.middle == waits.known_start.middle + 5 * HOUR


def _limited(number: int, seconds: float | None = None) -> JobState:
    """A job that has held half a node for 10 s and may run for 40."""
    asked = job(f"j{number}", 4, number=number, duration=seconds, program=Program(time=40.0))
    half = placement(*(("n0", 1 << bit) for bit in range(4 * number - 4, 4 * number)))
    return running(asked, half)


def test_no_job_is_played_beyond_its_time_limit_nor_those_behind_it() -> None:
    """Two jobs that would take five minutes are ended after 40 s, 30 s from now."""
    waits = job("waits", 8, number=3, duration=60.0, program=Program(time=20.0))
    seen = view(cluster(1), [_limited(1, 300.0), _limited(2, 300.0), waits])
    outlooks = {n: Outlook(60.0 if n == 3 else 290.0, Table((1.0,) * 8)) for n in (1, 2, 3)}
    present = Present(replace(seen, outlooks=outlooks), 10.0, POLICIES["fifo"])
    found = foresee(present, Past(), worlds=4)
    assert found[1].finish.middle == found[1].finish.high == 40.0
    start, end = found[3].start, found[3].finish
    assert start is not None and 40.0 <= start.middle <= 50.0
    assert end.high <= start.high + 20.0


def test_a_first_start_does_not_cost_what_a_stop_does() -> None:
    """Its user says that a stop costs 20 minutes; nothing is lost when it starts first."""
    asked = job("j", 2, duration=300.0, pause=1_200.0, number=1)
    half = placement(("n0", 1), ("n0", 2))
    known = {1: Outlook(300.0, Table((0.0, 1.0)), spread=0.0)}
    starts = running(asked, half, phase=Phase.STARTING)
    for seen in (view(cluster(1), [asked]), view(cluster(1), [starts])):
        present = Present(replace(seen, outlooks=known), 0.0, POLICIES["fifo"])
        assert foresee(present, Past(), worlds=4)[1].finish.high < 500.0
    runs = Present(
        replace(view(cluster(1), [running(asked, half)]), outlooks=known), 60.0, POLICIES["fifo"]
    )
    assert foresee(runs, Past(), worlds=4)[1].finish.high < 500.0
    again = replace(starts, run=3, generation=3)
    present = Present(replace(view(cluster(1), [again]), outlooks=known), 0.0, POLICIES["fifo"])
    assert foresee(present, Past(), worlds=4)[1].finish.middle > 900.0


def test_a_job_of_which_nothing_is_known_ends_by_its_time_limit() -> None:
    present = Present(view(cluster(1), [_limited(1)]), 10.0, POLICIES["fifo"])
    found = Forecaster().ask(present)[1]
    assert found.known_finish is not None
    assert found.known_finish.middle == 40.0


def test_a_job_whose_old_node_is_lost_while_it_moves_goes_on_on_its_new_one() -> None:
    present, seen = _asked(_jobs((0.0, 8, 1000.0), (100.0, 8, 10.0)), 100.0, _setting(nodes=2))
    there = placement(*(("n1", 1 << device) for device in range(8)))
    moving = replace(present.view.jobs[1], phase=Phase.MIGRATING, target=there)
    lost = evolve(view(cluster(2), [moving]), [NodeLost("n0", 100.0, "its allocation ends")])
    seen.follow(lost, 100.0)
    found = foresee(replace(present, view=lost), seen, worlds=4)
    assert found[1].start is None, "it runs"
    assert found[1].finish.middle > 100.0


def test_a_job_whose_steps_nobody_has_timed_has_no_end_until_they_are() -> None:
    """It says that 480 steps are left, and nothing says how long one takes."""
    present, seen = _asked(_jobs((0.0, 8, HOUR)), 0.0, _setting())
    steps = Outlook(1.0, Table((1.0,)), spread=0.4, told=True, timed=False)
    assert _forecast_by(steps, present, seen).known_finish is None
    assert _forecast_by(steps, present, seen, work=480.0).known_finish is None
    known = _forecast_by(replace(steps, left=700.0, timed=True), present, seen).known_finish
    assert known is not None and known.low > present.now + 300.0


def test_work_that_was_declared_in_steps_alone_tells_no_end() -> None:
    """What is believed of jobs of any kind is no forecast of this one."""
    present, seen = _asked(_jobs((0.0, 8, HOUR)), 0.0, _setting())
    any_kind = Outlook(1200.0, Table((1.0,)), spread=1.1)
    assert _forecast_by(any_kind, present, seen, work=480.0).known_finish is None


def test_a_job_that_has_outlived_all_like_it_has_no_end_and_no_start_behind_it() -> None:
    """Four jobs took a second each; the next runs for a minute already."""
    past = [(n * 100.0, 8, 1.0) for n in range(4)]
    present, seen = _asked(_jobs(*past, (1000.0, 8, HOUR), (1060.0, 8, 1.0)), 1060.0, _setting())
    found = foresee(present, seen)
    assert found[5].known_finish is None
    assert found[6].known_start is None and found[6].known_finish is None
    longer = [*past, (500.0, 8, 400.0)]
    present, seen = _asked(_jobs(*longer, (1000.0, 8, HOUR), (1060.0, 8, 1.0)), 1060.0, _setting())
    found = foresee(present, seen)
    assert found[6].known_finish is not None and found[7].known_start is not None
    assert found[6].jobs == 5


def _forecast_by(
    outlook: Outlook, present: Present, seen: Past, work: float | None = None
) -> JobForecast:
    """Forecast the only job by what is believed of it."""
    state = present.view.jobs[1]
    changed = {1: replace(state, job=replace(state.job, work=work))}
    view = replace(present.view, jobs=changed, outlooks={1: outlook})
    return foresee(replace(present, view=view), seen, worlds=8)[1]
