"""A job of fixed run time goes at 1 on its gang, and nowhere else."""

from muster.perf.learnt.held import Held
from muster.sim.worlds.fixed import Fixed


def test_it_runs_a_second_a_second_on_its_gang_however_spread() -> None:
    truth = Fixed(600.0, workers=4)
    assert truth.work == 600.0
    assert truth.pace(Held("V100", (4,)), 0.0).rate == 1.0
    assert truth.pace(Held("P100", (1, 1, 1, 1)), 300.0).rate == 1.0


def test_with_fewer_workers_it_does_not_run() -> None:
    truth = Fixed(600.0, workers=4)
    assert truth.pace(Held("V100", (3,)), 0.0).rate == 0.0
    assert truth.outlook(0.0).speed.rate("V100", 3) == 0.0


def test_the_outlook_is_what_is_left() -> None:
    outlook = Fixed(600.0, workers=2).outlook(450.0)
    assert outlook.left / outlook.speed.rate("V100", 2) == 150.0
    assert outlook.spread == 0.0


def test_jobs_of_a_size_share_their_speed() -> None:
    assert Fixed(1.0, 8).outlook(0.0).speed is Fixed(2.0, 8).outlook(0.0).speed
