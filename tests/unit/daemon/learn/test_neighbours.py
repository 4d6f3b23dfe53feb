"""What live jobs show about their neighbours, and what the daemon makes of it."""

from muster.daemon.learn import Beliefs
from muster.model.job import Job
from muster.model.slowdowns import PRIOR, Common
from muster.model.view import View
from tests.builders import cluster, job, node_set, placement, view
from tests.unit.daemon.crews import TYPE, Crew

HERE = cluster(2, node_set(device_type=TYPE))


def train(name: str, number: int) -> Job:
    return job(name, command=("python", f"{name}.py"), number=number)


def seen(*jobs: Job) -> View:
    return view(HERE, jobs)


def seated(beliefs: Beliefs, name: str, number: int, bits: int, now: float = 0.0) -> Crew:
    """A job that has got one device of the first node."""
    crew = Crew(beliefs, train(name, number), now=now)
    crew.start()
    beliefs.seat(crew.job, placement(("n0", bits)), HERE, now)
    return crew


def crowded(beliefs: Beliefs) -> tuple[Crew, Crew]:
    """A job that steps in 1 s alone, and in 1.5 s once a second one trains below its switch."""
    one = seated(beliefs, "one", 1, 0b01)
    one.train(400, 1.0)
    two = seated(beliefs, "two", 2, 0b10, now=one.now)
    two.train(1, 1.0)
    one.train(400, 1.5)
    return one, two


def test_a_job_that_got_slower_beside_another_is_slowed_by_it() -> None:
    beliefs = Beliefs({TYPE: 8})
    one, two = crowded(beliefs)
    progress = beliefs.progress(1)
    assert progress is not None and progress.beside == 2
    assert 0.45 < progress.slowed < 0.55
    believed = beliefs.slowdowns(seen(one.job, two.job))
    assert believed.beside(Common.SWITCH, 1, 2) > 0.3
    assert believed.beside(Common.NODE, 1, 2) == PRIOR[Common.NODE]


def test_when_the_neighbour_has_gone_nothing_slows_it() -> None:
    beliefs = Beliefs({TYPE: 8})
    _, two = crowded(beliefs)
    beliefs.ended(two.job, two.now, succeeded=True)
    progress = beliefs.progress(1)
    assert progress is not None and (progress.slowed, progress.beside) == (0.0, 0)


def test_steps_while_a_neighbour_loads_its_data_tell_nothing() -> None:
    beliefs = Beliefs({TYPE: 8})
    one = seated(beliefs, "one", 1, 0b01)
    one.train(400, 1.0)
    seated(beliefs, "two", 2, 0b10, now=one.now)
    one.train(10, 5.0)  # within the time that a job may take to begin
    assert beliefs.slowdowns(seen(one.job)).typical == PRIOR


def test_what_neighbours_cost_is_not_taken_for_the_jobs_own_speed() -> None:
    """Another job of the kind is believed as fast as the first was alone."""
    beliefs = Beliefs({TYPE: 8})
    first, _ = crowded(beliefs)
    beliefs.ended(first.job, first.now, succeeded=True)
    one = seated(beliefs, "one", 3, 0b01, now=10_000.0)
    one.train(40, 1.5)
    here, alone = beliefs.outlooks(seen(one.job), one.now)[3], 1.0
    assert here.here is not None
    assert here.here < here.speed.rate(TYPE, 1) <= 1.05 * alone


def test_a_restarted_daemon_still_knows_bad_neighbours() -> None:
    beliefs = Beliefs({TYPE: 8})
    one, two = crowded(beliefs)
    after = Beliefs({TYPE: 8})
    after.restore(beliefs.observations())
    believed = after.slowdowns(seen(one.job, two.job))
    assert believed.beside(Common.SWITCH, 1, 2) > PRIOR[Common.SWITCH]
