"""What is believed of jobs: from their own reports, from their like, and after a restart."""

from dataclasses import replace
from math import isclose
from typing import Any

import pytest

from muster.daemon.learn import Beliefs
from muster.daemon.learn.applications import family_of
from muster.daemon.learn.transfers import spots_of
from muster.model.job import Job, Program
from muster.model.outlook import Outlook
from muster.model.view import View
from muster.perf.history.links import LinkEstimate, learn
from muster.perf.learnt.held import Held
from muster.perf.wires import LinkClass, Wire, prior
from muster.wire.tasks.messages import Captured, Changed, Saved, StepDone, Transferred
from tests.builders import cluster, job, node_set, placement, running, view
from tests.unit.daemon.crews import TYPE, Crew

NODES = {TYPE: 8}


def train(name: str, number: int = 1, script: str = "train.py", **fields: Any) -> Job:
    return job(name, most=8, command=("python", script), number=number, **fields)


def seen(*jobs: Job) -> View:
    return view(cluster(2, node_set(device_type=TYPE)), jobs)


def outlook(beliefs: Beliefs, one: Job, now: float = 0.0) -> Outlook:
    return beliefs.outlooks(seen(one), now)[one.number]


def seconds(beliefs: Beliefs, one: Job, workers: int) -> float:
    """How long the job should take from now on with this many workers."""
    found = outlook(beliefs, one)
    return found.left / found.speed.rate(TYPE, workers)


@pytest.fixture
def beliefs() -> Beliefs:
    return Beliefs(NODES)


def test_a_job_that_nobody_knows_has_the_priors_outlook(beliefs: Beliefs) -> None:
    found = outlook(beliefs, train("a"))
    assert found.left > 0
    assert found.spread > 0.5
    assert found.here is None
    assert found.speed.rate(TYPE, 4) > found.speed.rate(TYPE, 1) > 0
    assert beliefs.finish(1, seen(train("a")), 0.0) is None


def test_the_first_measured_step_on_other_devices_calls_for_a_cycle(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((1,))
    beliefs.inform(seen(crew.job), crew.now)
    assert not beliefs.has_news
    crew.train(60, 1.0)
    assert beliefs.has_news
    beliefs.inform(seen(crew.job), crew.now)
    crew.train(60, 1.0)
    assert not beliefs.has_news


def test_the_finish_follows_from_steps_left_and_the_measured_step(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((2,))
    assert beliefs.finish(1, seen(crew.job), crew.now) is None  # nobody knows how long it is
    assert not outlook(beliefs, crew.job, crew.now).told
    crew.capture(steps=1_000)
    crew.train(40, 0.5, wait=0.1)
    left = (1_000 - 40) * 0.5
    finish = beliefs.finish(1, seen(crew.job), crew.now)
    assert finish is not None
    assert isclose(finish - crew.now, left, rel_tol=0.02)
    found = outlook(beliefs, crew.job, crew.now)
    assert found.here is not None
    assert isclose(found.left / found.here, left, rel_tol=0.02)
    assert found.told


def test_cold_first_steps_do_not_count(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((1,))
    crew.capture(steps=1_000)
    crew.train(3, 30.0)
    crew.train(20, 0.5)
    finish = beliefs.finish(1, seen(crew.job), crew.now)
    assert finish is not None
    assert isclose(finish - crew.now, (1_000 - 23) * 0.5, rel_tol=0.02)


def test_what_a_job_shows_on_more_workers_bends_its_curve(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((1,))
    crew.capture(steps=10_000)
    crew.train(40, 1.0)
    hoped = outlook(beliefs, crew.job).speed
    for workers, step in ((2, 0.9), (4, 0.85)):  # it hardly gains from more
        crew.resize((workers,))
        crew.train(60, step, wait=step - 1.0 / workers)
    found = outlook(beliefs, crew.job).speed
    assert found.rate(TYPE, 4) < 2.0 < hoped.rate(TYPE, 4)
    assert found.rate(TYPE, 4) / found.rate(TYPE, 1) == pytest.approx(1 / 0.85, rel=0.2)


def test_tasks_that_changed_on_their_own_tell_nothing_of_what_is_held(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((4,))
    crew.capture(steps=1_000)
    held = crew.beliefs
    crew.beliefs = Beliefs(NODES)  # so that nobody tells of the devices that are held now
    crew.resize((1,), "failure")
    crew.beliefs = held
    crew.say(*crew.heard[-1:])
    crew.train(40, 9.0)
    assert outlook(beliefs, crew.job).here is None


def test_jobs_of_one_script_learn_from_each_other(beliefs: Beliefs) -> None:
    first = Crew(beliefs, train("first", 1))
    first.start((2,))
    first.capture(steps=200)
    first.train(200, 0.5)
    beliefs.ended(first.job, first.now, succeeded=True)
    # As long as the one before, from what it has shown: 200 steps of 0.5 s.
    assert isclose(seconds(beliefs, train("second", 2), 2), 100.0, rel_tol=0.2)
    other = outlook(beliefs, train("third", 3, "other.py"))
    assert other.spread > outlook(beliefs, train("second", 2)).spread


def test_models_of_one_script_are_told_apart(beliefs: Beliefs) -> None:
    small, large = Crew(beliefs, train("small", 1)), Crew(beliefs, train("large", 2))
    for crew, size, step in ((small, 10, 0.1), (large, 10_000, 2.0)):
        crew.start((2,))
        crew.capture(steps=1_000, size=size)
        crew.train(30, step)
    for crew, step in ((small, 0.1), (large, 2.0)):
        assert isclose(seconds(beliefs, crew.job, 2), (1_000 - 30) * step, rel_tol=0.1)


def test_a_job_that_fails_says_nothing_of_lengths(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((1,))
    crew.train(30, 0.5)
    before = outlook(beliefs, train("b", 2))
    beliefs.ended(crew.job, crew.now, succeeded=False)
    assert outlook(beliefs, train("b", 2)) == before


def test_a_stopped_job_has_to_do_again_what_was_not_saved(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((1,))
    crew.capture(steps=100)
    crew.train(50, 1.0)
    crew.say(Saved("worker-0", 40, "/x", 0.1))
    crew.train(10, 1.0)
    assert isclose(seconds(beliefs, crew.job, 1), 40.0, rel_tol=0.1)
    crew.stop()
    assert isclose(seconds(beliefs, crew.job, 1), 60.0, rel_tol=0.1)
    assert beliefs.finish(1, seen(crew.job), crew.now) is None


def test_a_program_that_reports_nothing_takes_as_long_as_its_user_says(beliefs: Beliefs) -> None:
    plain = job("a", 2, command=("make", "all"), duration=600.0, number=1)
    assert isclose(seconds(beliefs, plain, 2), 600.0)
    crew = Crew(beliefs, plain)
    crew.names, crew.formation = (), 0
    beliefs.holds(plain, _held(2), 1_000.0)
    finish = beliefs.finish(1, seen(plain), 1_200.0)
    assert finish is not None
    assert isclose(finish, 1_600.0)


def test_programs_that_report_nothing_resemble_each_other(beliefs: Beliefs) -> None:
    for number in range(3):
        plain = job(f"p{number}", 2, command=("make", "all"), number=number)
        beliefs.holds(plain, _held(2), 0.0)
        beliefs.ended(plain, 300.0, succeeded=True)
    again = job("again", 2, command=("make", "all"), number=9)
    assert isclose(seconds(beliefs, again, 2), 300.0, rel_tol=0.05)


def test_how_long_a_silent_program_still_runs_is_unknown(beliefs: Beliefs) -> None:
    # It was told as long again as it had run, as if that were known: off by up to 3,709 %.
    plain = job("a", 2, command=("make", "all"), number=1)
    beliefs.holds(plain, _held(2), 0.0)
    assert beliefs.finish(1, seen(plain), 600.0) is None
    for number in range(2, 5):
        like = job(f"p{number}", 2, command=("make", "all"), number=number)
        beliefs.holds(like, _held(2), 0.0)
        beliefs.ended(like, 300.0, succeeded=True)
    assert beliefs.finish(1, seen(plain), 600.0) is None


def test_a_declared_duration_is_believed_less_with_each_like_program_that_ends(
    beliefs: Beliefs,
) -> None:
    def plain(number: int) -> Job:
        return job(f"p{number}", 2, command=("make", "all"), duration=600.0, number=number)

    for number in range(1, 4):
        assert isclose(seconds(beliefs, plain(9), 2), 600.0 / 2 ** ((number - 1) / number))
        beliefs.holds(plain(number), _held(2), 0.0)
        beliefs.ended(plain(number), 300.0, succeeded=True)
    assert isclose(seconds(beliefs, plain(9), 2), 300.0, rel_tol=0.05)


@pytest.mark.parametrize(("named", "expected"), [(None, 600.0), ("sleeps", 3.0)])
def test_a_declared_duration_is_not_overruled_by_programs_that_declared_nothing_like_it(
    beliefs: Beliefs, named: str | None, expected: float
) -> None:
    """Unless the user says that they are one application: a program's name says little."""
    for number in range(1, 7):
        short = job(f"p{number}", 2, command=("sleep", "3"), number=number, application=named)
        beliefs.holds(short, _held(2), 0.0)
        beliefs.ended(short, 3.0, succeeded=True)
    long = job("long", 2, command=("sleep", "600"), duration=600.0, number=9, application=named)
    assert isclose(seconds(beliefs, long, 2), expected, rel_tol=0.05)


def test_a_training_of_unknown_length_takes_as_long_as_its_user_says(beliefs: Beliefs) -> None:
    # A stream: it reports steps, but nobody knows how many there are.
    crew = Crew(beliefs, train("a", duration=600.0))
    crew.start((1,))
    crew.capture()
    crew.train(200, 1.0)
    assert isclose(seconds(beliefs, crew.job, 1), 400.0, rel_tol=0.1)
    finish = beliefs.finish(1, seen(crew.job), crew.now)
    assert finish is not None
    assert isclose(finish - crew.now, 400.0, rel_tol=0.1)


def test_a_program_beyond_its_duration_ends_at_an_unknown_time(beliefs: Beliefs) -> None:
    plain = job("a", 2, command=("make", "all"), duration=600.0, number=1)
    beliefs.holds(plain, _held(2), 0.0)
    assert beliefs.finish(1, seen(plain), 599.0) is not None
    assert beliefs.finish(1, seen(plain), 601.0) is None


def test_asynchronous_workers_do_steps_side_by_side(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a", work=1_000.0))
    crew.start((4,))
    crew.formation += 1
    change = Changed("worker-0", 2, 0, crew.names, 0.0, "plan", sync="asynchronous")
    crew.say(change)
    for _ in range(20):
        for name in crew.names:  # each of the four takes 2 s for one step of its own
            crew.step += 1
            crew.now += 0.5
            crew.say(replace(crew.done(name, 2.0), seconds=0.0))
    finish = beliefs.finish(1, seen(crew.job), crew.now)
    assert finish is not None
    assert isclose(finish - crew.now, (1_000 - 80) * 0.5, rel_tol=0.1)


def test_starts_and_resizes_cost_what_was_measured(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((2,))
    crew.now += 8.0  # imports, data, the first step
    crew.train(20, 0.5)
    crew.resize((4,), pause=0.04)
    crew.train(20, 0.3)
    found = outlook(beliefs, crew.job)
    assert found.start == pytest.approx(8.5)
    assert found.resize == pytest.approx(0.04)
    # So will those of the next job of the script, also under the next daemon.
    after = Beliefs(NODES)
    after.restore(beliefs.observations())
    for each in (beliefs, after):
        waiting = outlook(each, train("b", 2))
        assert waiting.start == pytest.approx(8.5)
        assert waiting.resize == pytest.approx(0.04)


def test_a_start_costs_the_time_that_its_devices_are_idle(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((2,), loading=30.0)
    crew.now += 0.2
    # Before its first step nobody knows how long the start will have taken, but not less than so far.
    assert outlook(beliefs, crew.job, crew.now).start == pytest.approx(30.2)
    crew.train(1, 0.5)
    crew.now += 100.0
    assert outlook(beliefs, crew.job, crew.now).start == pytest.approx(30.7)


def test_a_loss_is_no_resize(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((4,))
    crew.train(20, 0.5)
    crew.resize((3,), "failure", pause=9.0)
    crew.train(20, 0.5)
    assert outlook(beliefs, crew.job).resize is None


def test_learning_survives_a_restart(beliefs: Beliefs) -> None:
    first = Crew(beliefs, train("first", 1))
    first.start((2,))
    first.capture(steps=200)
    first.train(100, 0.5, wait=0.05)
    first.resize((4,))
    first.train(100, 0.3, wait=0.05)
    beliefs.ended(first.job, first.now, succeeded=True)
    after = Beliefs(NODES)
    after.restore(beliefs.observations())
    assert beliefs.observations() == []
    waiting = train("second", 2)
    for workers in (1, 2, 4, 8):
        expected = seconds(beliefs, waiting, workers)
        assert isclose(seconds(after, waiting, workers), expected, rel_tol=0.1)


def test_what_users_jobs_take_of_their_durations_is_learnt_and_survives_a_restart(
    beliefs: Beliefs,
) -> None:
    for number in range(1, 4):  # a quarter of the 200 s asked for, of programs that report nothing
        one = replace(train(f"job{number}", number, f"{number}.py", duration=200.0), user="ann")
        beliefs.holds(one, Held(TYPE, (1,), None), 0.0)
        beliefs.ended(one, 50.0, succeeded=True)
    after = Beliefs(NODES)
    after.restore(beliefs.observations())
    for each in (beliefs, after):
        unseen = replace(train("new", 9, "new.py", duration=4_000.0), user="ann")
        assert seconds(each, unseen, 1) == pytest.approx(1_000.0, rel=0.1)


def test_a_running_job_is_believed_the_same_after_a_restart(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((2,))
    crew.capture(steps=1_000)
    crew.train(200, 0.5)
    crew.beliefs = after = Beliefs(NODES)
    after.restore(beliefs.observations())
    # Nobody says again what it holds or how long it is.
    crew.train(20, 0.5)
    finish = after.finish(1, seen(crew.job), crew.now)
    assert finish is not None
    assert isclose(finish - crew.now, (1_000 - 220) * 0.5, rel_tol=0.1)


def test_few_notes_are_made_of_long_jobs(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((2,))
    crew.capture(steps=100_000)
    crew.train(6_000, 0.6)  # an hour
    assert len(beliefs.observations()) < 100


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (train("a"), train("b"), True),
        (train("a"), train("b", script="other.py"), False),
        (train("a"), train("b", user="somebody"), False),
        (
            train("a", program=Program(folder="/x")),
            train("b", user="u", program=Program(folder="/x")),
            False,
        ),
        (train("a", application="x"), train("b", user="u", application="x"), False),
        (train("a", program=Program(folder="/x")), train("b", script="/x/train.py"), True),
        (train("a", application="x"), train("b", script="other.py", application="x"), True),
        (job("a", command=("python3", "-m", "x.y")), job("b", command=("python", "-m", "x.y")), True),
        (job("a", command=("python3", "-m", "x")), job("b", command=("python", "-m", "y")), False),
        (
            job("a", command=("cd x && python t.py",), program=Program(shell=True)),
            job("b", command=("python", "t.py")),
            True,
        ),
        (job("a"), job("b"), False),
    ],
)
def test_which_jobs_resemble_each_other(one: Job, other: Job, same: bool) -> None:
    assert (family_of(one) == family_of(other)) is same


def test_what_another_user_reports_of_an_application_changes_nothing(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("r", application="bert", user="ann"))
    crew.start((2,))
    crew.capture(steps=100)
    crew.train(30, 0.5)
    next_one = train("n", 10, application="bert", user="ann")
    before = beliefs.outlooks(seen(next_one), crew.now)[10]
    liar = Crew(beliefs, train("l", 2, application="bert", user="mallory"))
    liar.now = crew.now
    liar.start((2,))
    liar.capture(steps=1_000_000)
    liar.train(30, 50.0)
    assert beliefs.outlooks(seen(next_one), liar.now)[10] == before


def test_a_thousand_waiting_jobs_are_asked_of_the_learner_once(beliefs: Beliefs) -> None:
    """Outlooks of jobs of which the same is known are one and the same object."""
    crew = Crew(beliefs, train("r"))
    crew.start((2,))
    crew.capture(steps=100)
    crew.train(30, 0.5)
    known = [train(f"k{i}", 10 + i) for i in range(500)]
    unknown = [train(f"u{i}", 1_000 + i, f"script-{i}.py") for i in range(500)]
    first = beliefs.outlooks(seen(*known, *unknown), crew.now)
    assert len({id(found) for found in first.values()}) == 2
    crew.train(500, 0.5)  # a report of one application leaves the others' outlooks as they are
    again = beliefs.outlooks(seen(*known, *unknown), crew.now)
    assert again[1_000] is first[1_000]


def test_transfers_tell_of_links() -> None:
    here = cluster(4, node_set(device_type=TYPE), racks=2)
    beliefs = Beliefs(NODES, here)
    one = train("a")
    spots = spots_of(here, {"worker-0": "n0", "worker-1": "n0", "worker-2": "n1", "worker-3": "n2"})
    beliefs.holds(one, _held(2, 1, 1), 0.0, spots)
    nic, rack = LinkClass(Wire.NIC, "a"), LinkClass(Wire.RACK)
    for second in range(50):
        now = float(10 * second)
        took = 9.0 if second % 3 == 2 else 0.1  # beside other load; 10 GB/s
        beliefs.hear(one, Transferred("worker-0", 1, "worker-2", 10**9, took, 1e-4), now)
        beliefs.hear(one, Transferred("worker-2", 1, "worker-3", 10**9, 0.1, 1e-4), now)
        beliefs.hear(one, Transferred("worker-0", 1, "ring", 10**6, 0.1), now)  # by an older runtime
        beliefs.hear(one, Transferred("worker-0", 1, "worker-9", 10**6, 0.1, 1e-4), now)  # who is that?
        links = beliefs.links()
    assert {each.link for each in links.observed} == {nic, rack}
    found = learn(prior(here, nic), links.of(nic))
    assert isinstance(found, LinkEstimate)
    assert found.bandwidth.mean == pytest.approx(1e10, rel=0.2)
    assert found.latency.mean == pytest.approx(1e-4, rel=0.2)
    after = Beliefs(NODES, here)
    after.restore(beliefs.observations())
    assert set(after.links().observed) == set(links.observed)


def test_a_node_with_a_slow_link_is_known_by_name_and_to_the_next_daemon() -> None:
    here = cluster(4, node_set(device_type=TYPE))
    beliefs, blind = Beliefs(NODES, here), Beliefs(NODES, here, learn_links=False)
    one, names = train("a"), [f"worker-{i}" for i in range(4)]
    claimed = prior(here, LinkClass(Wire.NIC, "a")).bandwidth
    for each in (beliefs, blind):
        each.holds(
            one, _held(1, 1, 1, 1), 0.0, spots_of(here, {f"worker-{i}": f"n{i}" for i in range(4)})
        )
        for second in range(10):
            for source, target in zip(names, (*names[1:], names[0]), strict=True):
                slow = 10 if "worker-2" in (source, target) else 1
                size = 10**8
                said = Transferred(source, 1, target, size, slow * size / claimed, 1e-5)
                each.hear(one, said, float(second))
    assert beliefs.links().nodes == {"n2": pytest.approx(claimed / 10)}
    assert beliefs.node_links()["n1"].rate == pytest.approx(claimed)
    after = Beliefs(NODES, here)
    after.restore(beliefs.observations())
    assert after.links().nodes == beliefs.links().nodes
    assert blind.links().nodes == {}, "nothing is decided by it"
    assert blind.node_links()["n2"].rate == pytest.approx(claimed / 10), "and yet it is shown"


def test_running_jobs_are_in_the_outlooks_too(beliefs: Beliefs) -> None:
    crew = Crew(beliefs, train("a"))
    crew.start((2,))
    crew.capture(steps=100)
    both = view(
        cluster(2, node_set(device_type=TYPE)),
        [running(crew.job, placement(("n0", 1), ("n0", 2))), train("b", 2)],
    )
    assert set(beliefs.outlooks(both, crew.now)) == {1, 2}


def _held(*nodes: int) -> Held:
    return Held(TYPE, nodes)


def test_nodes_that_join_count_from_then_on() -> None:
    """A daemon without nodes knew of no type; what it believed of waiting jobs is no longer so."""
    beliefs = Beliefs({})
    assert outlook(beliefs, train("a")).speed.rate(TYPE, 1) == 0
    beliefs.follow(NODES)
    assert outlook(beliefs, train("a")).speed.rate(TYPE, 4) > 0


def test_with_a_free_batch_the_finish_agrees_with_the_epochs_left_by_the_loss(beliefs: Beliefs) -> None:
    """Four own steps an epoch, half a second each; the loss ends it by a rule."""
    one = train("a")
    beliefs.holds(one, Held(TYPE, (1,)), 0.0)
    shape = {"samples": 128}
    beliefs.hear(one, Captured("worker-0", shape, 0, 32, largest=64, until="converged 0.5%"), 0.0)
    beliefs.hear(one, Changed("worker-0", 1, 1, ("worker-0",), 0.0, "start"), 0.0)
    now = 0.0
    for step in range(1, 81):
        epoch, now = (step - 1) // 4, 0.5 * step
        loss = 1 / (0.1 * epoch + 0.9) + 0.2
        times = (0.2, 0.3, 0.0, 0.0, 0.5)
        done = StepDone("worker-0", 1, step, epoch, 32, loss, *times, batch=32, done=float(step))
        beliefs.hear(one, done, now)
    ending, finish = beliefs.ending(1), beliefs.finish(1, seen(one), now)
    assert ending is not None and ending.epochs is not None and finish is not None
    assert isclose(finish - now, 2.0 * (ending.epochs.mean - 20), rel_tol=0.1)
