"""What is learnt from what jobs show: lengths, the worth of batches, speeds."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from math import log

import pytest

from muster.model.job import Job
from muster.perf.learnt.batches import BatchRange, Split
from muster.perf.learnt.held import Held
from muster.perf.learnt.learner import Learner
from muster.perf.learnt.lengths import Lengths
from muster.perf.learnt.step_report import StepReport
from muster.perf.learnt.steps import PlacedSplit, Places, StepTimes
from muster.perf.learnt.way import Way, start, stretch
from muster.perf.mixture import mixed_rate
from tests.builders import job

RANGE = BatchRange(smallest=16, largest=512, least_each=4, most_each=64)


def trained(name: str, application: str | None = "net", batch: int | None = 64, most: int = 32) -> Job:
    return job(name, 1, most=most, application=application, batch=batch)


def on(*shape: int, device_type: str = "A", batch: int | None = None) -> Held:
    return Held(device_type, shape, batch)


def lengths(*works: float) -> Lengths:
    found = Lengths()
    for work in works:
        found.add(work)
    return found


# Lengths


def test_with_nothing_to_go_by_a_job_takes_as_long_again() -> None:
    assert lengths().left(0.0, first=1200.0).middle == 1200.0
    assert lengths().left(5000.0, first=1200.0).middle == 5000.0
    # Pareto's tail at 16 % and 84 %: d / 0.84 - d and d / 0.16 - d; half the log of their ratio.
    assert lengths().left(5000.0).spread == pytest.approx(log((1 / 0.16 - 1) / (1 / 0.84 - 1)) / 2)


def test_what_is_left_beyond_a_length_is_the_same_however_often_it_is_asked() -> None:
    found = lengths(100.0, 300.0, 700.0)
    for done in (0.0, 50.0, 250.0, 499.0, 500.0, 600.0):
        assert found.left(done, 500.0, 90.0) == lengths(100.0, 300.0, 700.0).left(done, 500.0, 90.0)
    found.add(900.0)
    assert found.left(250.0, 500.0, 90.0) == lengths(100.0, 300.0, 700.0, 900.0).left(
        250.0, 500.0, 90.0
    )


@pytest.mark.parametrize(
    ("ended", "done", "left"),
    [
        ((100.0,), 40.0, 60.0),
        ((100.0, 200.0, 300.0), 0.0, 200.0),
        ((100.0, 200.0, 300.0), 150.0, 150.0),  # 200, 300 or beyond: the middle is 300
        ((100.0, 200.0, 300.0), 400.0, 400.0),  # longer than all: as long again
    ],
)
def test_what_is_left_given_that_it_has_not_ended(
    ended: tuple[float, ...], done: float, left: float
) -> None:
    assert lengths(*ended).left(done).middle == pytest.approx(left)


def test_one_that_ended_is_little_to_go_by_and_many_alike_are_much() -> None:
    # One of two is beyond 100: at 84 % that is 100 / (1 - 0.68). Eight alike leave one in nine beyond.
    assert lengths(100.0).left(0.0).spread == pytest.approx(log(1 / 0.32) / 2)
    assert lengths(*[100.0] * 8).left(0.0).spread == 0.0


def test_what_another_has_reached_without_an_end_counts() -> None:
    assert lengths(50.0, 60.0).left(10.0, exceeds=1000.0).middle == pytest.approx(1990.0)


def test_old_lengths_are_forgotten() -> None:
    found = lengths(*[10.0] * 300, *[70.0] * 256)
    assert len(found) == 256
    assert found.left(0.0).middle == 70.0


# The worth of a batch


def test_how_a_batch_is_dealt() -> None:
    # 512 on 3: 171 each, at most 64 at a time: 3 passes of 57 would be 513, so 56.
    split = RANGE.split(512, 3)
    assert (split.at_once, split.further, split.batch) == (56, 2, 504)


def test_stretches_without_a_report_are_like_the_last_with_one() -> None:
    way = Way()
    way.add(start(3), 8.0)
    way.add(start(5), 2.0)
    way.add(start(5), 8.0)
    assert way.values() == pytest.approx([8.0, 8.0, 8.0, 8.0, 8.0, 4.0])
    assert way.version == 2
    assert stretch(start(7) + 1e-9) == 7


# StepTimes


def test_synchronising_measured_longer_than_the_step_is_believed_no_further() -> None:
    steps = StepTimes()
    place = PlacedSplit((4,), RANGE.split(64, 4))
    steps.add(place, 1.0, 1.04)
    assert steps.seconds([place], 16)[0] == pytest.approx(1.0, rel=0.2)


def test_many_settings_are_kept_within_bounds_and_predicted() -> None:
    # One node, computing only: 0.1 s and 0.01 s a sample. Two dozen settings and more are seen.
    steps = StepTimes()
    for batch in range(4, 64, 2):
        place = PlacedSplit((1,), BatchRange(batch, 512, 1, 64).split(batch, 1))
        steps.add(place, 0.1 + 0.01 * batch, 0.0)
    asked = PlacedSplit((1,), BatchRange(41, 512, 1, 64).split(41, 1))
    assert steps.seconds([asked], 16)[0] == pytest.approx(0.51, rel=0.05)


# The learner


def test_of_the_unknown_little_is_promised() -> None:
    told = Learner({"A": 4}).outlook(trained("j"), None, 0.0)
    rates = [told.speed.rate("A", k) for k in range(1, 9)]
    assert told.left == 1200.0
    assert told.here is None
    assert rates[0] == pytest.approx(1.0)
    assert rates[0] < rates[1] < rates[3] < 4.0
    assert rates[4:] == [rates[3]] * 4
    assert told.spread > 0.7


def test_speeds_are_told_for_twice_as_many_devices_as_were_seen() -> None:
    learner, asked = Learner({"A": 4}), trained("j")
    learner.watch(asked, on(4, 4), StepReport(1.0, 0.1), 10.0)
    speed = learner.outlook(trained("another"), None, 0.0).speed
    assert speed.rate("A", 16) > speed.rate("A", 12) > speed.rate("A", 8)
    assert speed.rate("A", 32) == speed.rate("A", 16)


def test_the_time_left_where_it_runs_is_measured() -> None:
    # Jobs of the application take 100 units of work; a step of 2 s does one unit: 60 are left.
    learner = Learner({"A": 4})
    learner.watch(trained("first"), on(1), StepReport(2.0), 50.0)
    for i in range(8):
        learner.ended(trained(f"like-{i}"), 100.0)
    learner.watch(trained("second"), on(3, 1), StepReport(2.0), 40.0)
    told = learner.outlook(trained("second"), on(3, 1), 40.0)
    assert told.here is not None
    assert told.left / told.here == pytest.approx(120.0, rel=0.01)
    # On other devices than those it reported from nothing was measured yet.
    assert learner.outlook(trained("second"), on(4), 40.0).here is None


def test_a_worse_placement_shows_as_slower_here() -> None:
    learner = Learner({"A": 4})
    learner.watch(trained("packed"), on(4), StepReport(1.0, 0.2), 5.0)
    learner.watch(trained("spread"), on(1, 1, 1, 1), StepReport(3.0, 2.2), 5.0)
    packed = learner.outlook(trained("packed"), on(4), 5.0).here
    spread = learner.outlook(trained("spread"), on(1, 1, 1, 1), 5.0).here
    assert packed is not None
    assert spread is not None
    assert packed / spread == pytest.approx(3.0)


def test_lengths_of_others_stand_in_until_one_of_its_own_has_ended() -> None:
    # Others took 1000 steps of 3 s on one device; nothing is known of the new application.
    learner = Learner({"A": 4})
    for i in range(4):
        learner.watch(trained(f"old{i}"), on(1), StepReport(3.0), 10.0)
        learner.ended(trained(f"old{i}"), 1000.0)
    assert learner.outlook(trained("new", "other"), None, 0.0).left == pytest.approx(3000.0, rel=0.25)


def test_jobs_without_an_application_do_not_pass_for_each_other() -> None:
    learner = Learner({"A": 4})
    learner.watch(trained("x", None), on(8), StepReport(1.0), 5.0)
    told = learner.outlook(trained("y", None), None, 0.0).speed
    assert told.rate("A", 16) == told.rate("A", 4)


def test_a_type_twice_as_fast_is_told_as_such() -> None:
    learner, asked = Learner({"A": 4, "B": 4}), trained("j")
    learner.watch(asked, on(1), StepReport(2.0, 0.0), 5.0)
    learner.watch(asked, on(1, device_type="B"), StepReport(1.0, 0.0), 6.0)
    speed = learner.outlook(asked, None, 6.0).speed
    assert speed.rate("B", 1) / speed.rate("A", 1) == pytest.approx(2.0)
    assert speed.rate("C", 1) == 0.0


@pytest.mark.parametrize(("noise", "least", "most"), [(1.0, 16, 32), (1e6, 256, 512)])
def test_the_noisier_the_gradients_the_larger_the_best_batch(
    noise: float, least: int, most: int
) -> None:
    learner = Learner({"A": 4}, {"net": RANGE}, free_batch=True)
    for devices in (1, 2, 4):
        learner.watch(trained("j"), on(devices), StepReport(1.0, 0.3, noise=noise), float(devices))
    batch = learner.outlook(trained("j"), None, 4.0).speed.batch("A", 4)
    assert batch is not None
    assert least <= batch <= most


def test_equal_reports_give_equal_outlooks_and_they_are_values() -> None:
    def told() -> object:
        learner = Learner({"A": 4}, {"net": RANGE}, free_batch=True)
        for devices in (1, 2, 4):
            learner.watch(trained("j"), on(devices), StepReport(1.0 + devices, 0.1, 2.0, 300.0), 10.0)
        return learner.outlook(trained("j"), on(4), 12.0)

    first, second = told(), told()
    assert first == second
    assert hash(first) == hash(second)
    assert pickle.loads(pickle.dumps(first)) == first


def test_a_wrong_first_measurement_is_corrected_by_later_ones() -> None:
    # Six workers looked as slow as one, on a machine that was busy then. Nothing was fitted again
    # until another number of workers was seen.
    steps = StepTimes()
    one, six = (PlacedSplit((count,), RANGE.split(64, count)) for count in (1, 6))
    steps.add(one, 1.0, 0.0)
    steps.add(six, 1.1, 0.1)
    assert steps.seconds([six], 16)[0] > 0.8
    for _ in range(2):
        steps.add(six, 0.2, 0.02)
    assert steps.seconds([six], 16)[0] == pytest.approx(0.2, rel=0.2)


def test_measurements_that_agree_cause_no_other_fit() -> None:
    steps = StepTimes()
    place = PlacedSplit((4,), RANGE.split(64, 4))
    for seconds in (1.0, 1.05, 0.95, 1.02):
        steps.add(place, seconds, 0.1)
    before = steps.known()
    for seconds in (1.04, 0.96, 1.02):
        steps.add(place, seconds, 0.1)
    assert steps.known() == before


def test_a_setting_is_known_better_with_every_doubling_of_its_reports() -> None:
    steps = StepTimes()
    place = PlacedSplit((4,), RANGE.split(64, 4))
    for seconds in (1.04, *[1.0] * 31):  # a first report within the usual jitter
        steps.add(place, seconds, 0.1)
        steps.known()
    assert steps.seconds([place], 64)[0] == pytest.approx(1.0, rel=0.005)


def test_a_batch_that_a_device_computes_in_parts_takes_as_long_as_they_do() -> None:
    known, plain = Learner({"A": 8}), Learner({"A": 8})
    one = trained("a", most=8)
    known.foresee(one, {}, at_once=8)
    for learner in (known, plain):
        # 64 samples in parts of 8, each 1 s; another 0.5 s to synchronise several devices.
        for workers, step in ((8, 1.5), (4, 2.5)):
            learner.watch(one, on(workers), StepReport(step, 0.5), 1.0)
    rates = [each.outlook(one, None, 0.0).speed for each in (known, plain)]
    gains = [speed.rate("A", 8) / speed.rate("A", 1) for speed in rates]
    assert gains[0] == pytest.approx(8 / 1.5, rel=0.1)
    assert abs(gains[0] - 8 / 1.5) < abs(gains[1] - 8 / 1.5)


def test_a_setting_measured_often_counts_more_than_the_form() -> None:
    # Two workers are a third slower than any smooth form through the others has it.
    steps = StepTimes()
    places = {count: PlacedSplit((count,), RANGE.split(64, count)) for count in (1, 2, 4, 8)}
    for _ in range(8):
        for count, place in places.items():
            steps.add(place, (1.33 if count == 2 else 1.0) / count, 0.01)
    found = steps.seconds(list(places.values()), 16)
    assert found[1] == pytest.approx(0.665, rel=0.1)
    assert found[2] == pytest.approx(0.25, rel=0.1)


def test_a_slower_type_is_believed_slower_before_anything_has_run_there() -> None:
    learner = Learner({"H100": 8, "T4": 4})
    one = trained("one")
    fresh = learner.outlook(one, None, 0.0).speed
    assert fresh.rate("T4", 1) < fresh.rate("H100", 1) / 3  # data sheets: 67 and 8.1 TFLOP/s
    learner.watch(one, on(1, device_type="H100"), StepReport(0.1), 1.0)
    shown = learner.outlook(one, None, 1.0).speed
    assert shown.rate("T4", 1) < shown.rate("H100", 1) / 3


def test_what_others_have_shown_of_two_types_carries_over() -> None:
    learner = Learner({"A": 8, "B": 8})
    for name in ("x", "y", "z"):
        other = trained(name, application=name)
        for _ in range(3):
            learner.watch(other, on(1, device_type="A"), StepReport(1.0), 1.0)
            learner.watch(other, on(1, device_type="B"), StepReport(4.0), 1.0)
    new = trained("new", application="new")
    learner.watch(new, on(1, device_type="A"), StepReport(0.2), 1.0)
    speed = learner.outlook(new, None, 1.0).speed
    assert 2.0 < speed.rate("A", 1) / speed.rate("B", 1) <= 4.0


def test_an_application_never_seen_is_expected_to_scale_like_those_seen() -> None:
    def told(step: Callable[[int], float]) -> float:
        learner = Learner({"A": 8})
        for name in "abcdefgh":
            for count in (1, 2, 3, 4, 5, 6, 7, 8):
                report = StepReport(step(count), 0.0 if count == 1 else step(count) / 10)
                learner.watch(trained(name, application=name), on(count), report, 1.0)
        return learner.outlook(trained("new", application="new"), None, 0.0).speed.rate("A", 8)

    assert told(lambda count: 1.0 / count) > 1.2 * told(lambda count: 0.7 + 0.3 / count)


def speed_on_four(learner: Learner, most: int = 8) -> float:
    """What is believed of an application that nobody has seen."""
    asked = trained("new", application="new", batch=None, most=most)
    return learner.outlook(asked, None, 0.0).speed.rate("A", 4)


def test_who_allows_more_workers_is_believed_to_gain_more_by_the_first_ones() -> None:
    # Half of the smallest step is overhead: of 16 samples on 4 devices that is 4 samples' worth of
    # overhead, 1 / (0.2 + 0.8 / 4) = 2.5 times as fast at best; on 16 devices only that of one sample.
    learner = Learner({"A": 4})
    told = [speed_on_four(learner, most) for most in (4, 8, 16)]
    assert 1.9 < told[0] < told[1] < told[2] < 4.0


def test_a_few_applications_on_few_devices_tell_how_the_next_speeds_up() -> None:
    def told(*settings: int) -> float:
        learner = Learner({"A": 4})
        for name in "abc":
            for count in settings:
                report = StepReport(1.0 / count, 0.0 if count == 1 else 0.01 / count)
                learner.watch(trained(name, application=name, most=8), on(count), report, 1.0)
        return speed_on_four(learner)

    before = told()
    assert told(4) == pytest.approx(before)  # one setting tells the unit alone
    assert told(1, 4) > 1.1 * before
    assert told(1, 2, 4) > told(1, 4)


def test_a_declared_duration_is_believed_less_with_each_like_job_that_ends() -> None:
    learner = Learner({"A": 8})
    one = replace(trained("one"), duration=3_600.0)
    for expected in (3_600.0, (3_600.0 * 500.0) ** (1 / 2), (3_600.0 * 500.0**2) ** (1 / 3)):
        found = learner.outlook(one, None, 0.0)
        assert found.left / found.speed.rate("A", 1) == pytest.approx(expected)
        assert found.spread > 0.0
        learner.watch(one, on(1), StepReport(1.0), 1.0)
        learner.ended(one, 500.0)
    found = learner.outlook(one, None, 0.0)
    assert found.left / found.speed.rate("A", 1) == pytest.approx(500.0, rel=0.1)


def test_a_job_of_known_steps_whose_length_nobody_knows_is_as_long_as_jobs_are() -> None:
    learner = Learner({"A": 8})
    found = learner.outlook(replace(trained("j"), work=10.0), None, 0.0)
    assert not found.timed
    assert found.left == pytest.approx(1_200.0)  # that of an unknown job, not ten steps of a second
    assert found.spread > 1.0
    half = learner.outlook(replace(trained("j"), work=10.0), None, 5.0)
    assert half.left == pytest.approx(600.0)


def ends(learner: Learner, user: str, declared: float, took: float, count: int = 8) -> None:
    """A user's jobs, each of an application of its own, end after a part of what was declared."""
    for i in range(count):
        one = replace(trained(f"{user}{i}", f"{user}{i}"), duration=declared, user=user)
        learner.watch(one, on(1), StepReport(1.0), 1.0)
        learner.ended(one, took)


def test_the_part_of_their_durations_that_a_users_jobs_take_tells_how_long_the_next_is() -> None:
    learner = Learner({"A": 8})
    ends(learner, "ann", 3_600.0, 900.0)
    ends(learner, "bob", 3_600.0, 3_600.0)
    lengths = {}
    for user in ("ann", "bob", "new"):
        found = learner.outlook(replace(trained("next", "other"), duration=7_200.0, user=user), None, 0)
        lengths[user] = found.left / found.speed.rate("A", 1)
    assert lengths["ann"] == pytest.approx(1_800.0, rel=0.1)
    assert lengths["bob"] == pytest.approx(7_200.0, rel=0.1)
    assert lengths["ann"] < lengths["new"] <= lengths["bob"] * 1.01  # as users are on the whole


def test_an_exact_user_is_believed_more_than_similar_jobs_that_differ() -> None:
    learner = Learner({"A": 8})
    for took in (300.0, 900.0, 2_700.0, 8_100.0) * 2:
        one = replace(trained("one"), duration=took)
        learner.watch(one, on(1), StepReport(1.0), 1.0)
        learner.ended(one, took)
    found = learner.outlook(replace(trained("next"), duration=300.0), None, 0.0)
    assert found.left / found.speed.rate("A", 1) == pytest.approx(300.0, rel=0.2)


def test_a_job_beyond_the_duration_of_an_exact_user_is_nearly_done() -> None:
    learner = Learner({"A": 8})
    ends(learner, "bob", 3_600.0, 3_600.0, count=30)
    one = replace(trained("next", "other"), duration=3_600.0, user="bob")
    learner.watch(one, on(1), StepReport(1.0), 3_650.0)
    assert learner.outlook(one, on(1), 3_650.0).left < 1_000.0


def test_a_running_job_that_tells_its_steps_tells_what_durations_are_worth() -> None:
    """A hundred steps of four seconds, where its user said 100 s: the next one's 100 s may be 200 s."""
    learner = Learner({"A": 8})
    told = replace(trained("told", "told"), duration=100.0, work=100.0, number=1)
    other = replace(trained("other", "other"), duration=100.0, number=2)
    assert learner.outlook(other, None, 0.0).left == pytest.approx(100.0)
    learner.watch(told, on(1), StepReport(4.0), 1.0)
    assert learner.outlook(other, None, 0.0).left == pytest.approx(200.0, rel=0.05)
    learner.forget(told)
    assert learner.outlook(other, None, 0.0).left == pytest.approx(100.0)  # it was stopped


def test_beyond_its_declared_duration_a_job_is_of_unknown_length() -> None:
    learner = Learner({"A": 8})
    one = replace(trained("one"), duration=100.0)
    learner.watch(one, on(1), StepReport(1.0), 150.0)
    assert learner.outlook(one, None, 150.0).left > 50.0


def test_of_like_jobs_of_unknown_length_the_furthest_is_believed_to_end_first() -> None:
    learner = Learner({"A": 4})
    ahead, behind = trained("ahead"), trained("behind")
    for one in (ahead, behind):
        learner.watch(one, on(1), StepReport(10.0), 1000.0)
    for done in (1001.0, 1023.0, 1025.0, 2047.0, 2049.0):  # reports are rare: its last was at 1,000
        further = learner.outlook(ahead, on(1), done)
        assert further.left < learner.outlook(behind, None, 1000.0).left


def test_until_a_job_has_ended_the_furthest_tells_how_long_its_like_are() -> None:
    learner = Learner({"A": 4})
    ahead, behind = trained("ahead"), replace(trained("behind"), number=2)
    alone = replace(trained("alone", None), number=3)
    known = replace(trained("known"), number=4, work=100.0)

    def tells() -> list[int]:
        progress = {ahead: 20.0, behind: 10.0, alone: 30.0, known: 0.0}
        for one, done in progress.items():
            learner.outlook(one, None, done)
        return [learner.outlook(one, None, done).tells for one, done in progress.items()]

    assert tells() == [6, 1, 1, 1]  # three are live, and as many are to come
    learner.forget(ahead)
    learner.forget(known)
    assert learner.outlook(behind, None, 10.0).tells == 2
    learner.ended(behind, 15.0)
    assert learner.outlook(ahead, None, 20.0).tells == 1


def test_a_job_of_unknown_batch_is_as_fast_on_several_devices_as_its_steps_show() -> None:
    # A step is the same work on any number of devices: on four it takes 0.33 s instead of 1.
    learner, asked = Learner({"A": 8}), trained("j", batch=None)
    for devices, step in ((1, 1.0), (2, 0.57), (4, 0.33)):
        for _ in range(4):
            learner.watch(asked, on(devices), StepReport(step), 10.0)
    speed = learner.outlook(asked, None, 10.0).speed
    assert speed.rate("A", 4) / speed.rate("A", 1) == pytest.approx(3.0, rel=0.1)


def test_the_order_of_types_in_the_cluster_file_changes_no_belief() -> None:
    def told(*types: str) -> object:
        learner, asked = Learner(dict.fromkeys(types, 8)), trained("j")
        learner.watch(asked, on(2, device_type="T4"), StepReport(1.0), 10.0)
        found = learner.outlook(asked, None, 10.0)
        return found.left, found.spread, found.speed

    assert told("T4", "A100") == told("A100", "T4")


def test_what_unequal_devices_make_together_is_learnt_apart_from_their_types() -> None:
    learner, asked = Learner({"A": 1, "B": 1}), trained("j", most=2)
    for _ in range(4):
        learner.watch(asked, on(1, device_type="A"), StepReport(1.0, 0.0), 10.0)
        learner.watch(asked, on(1, device_type="B"), StepReport(2.0, 0.0), 10.0)
    before = learner.outlook(asked, None, 10.0)
    both = Held("A", (1, 1), beside=(("B", 1),))
    learner.watch(asked, both, StepReport(1.5, 0.9), 10.0)  # slower than A alone: a bad link
    after = learner.outlook(asked, both, 10.0)
    assert after.speed == before.speed
    assert after.here == pytest.approx(before.speed.rate("A", 1) / 1.5, rel=0.01)
    assert after.mixing * mixed_rate(after.speed, both.by_type) == pytest.approx(after.here, rel=0.01)


def test_applications_asked_at_the_same_places_in_turns_are_told_as_at_places_of_their_own() -> None:
    at = [PlacedSplit((devices,), Split(devices, 32, 0)) for devices in (1, 2, 4)]
    shared, quick, slow = Places.of(at), StepTimes(), StepTimes()
    for devices, place in zip((1, 2, 4), at, strict=True):
        quick.add(place, 1.0 / devices, None)
        slow.add(place, 5.0 / devices**0.5, None)
        for _ in range(2):
            for steps in (quick, slow):
                assert steps.seconds(shared, 32).tolist() == steps.seconds(at, 32).tolist()
    assert quick.seconds(shared, 32)[2] < slow.seconds(shared, 32)[2]
