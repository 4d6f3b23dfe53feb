"""Work left of simulated jobs by the losses that they report."""

from muster.perf.epochs.convergence import Target
from muster.sim.losses import FromLosses, SeenLosses
from muster.sim.worlds.curves import CurveKind, Curves, CurveSpeed, epochs_until_converged, falling
from tests.builders import job

CURVE = falling(0.3, 0.05)
WORK = epochs_until_converged(CURVE, 0.005)
SPEED = CurveSpeed(CurveKind.SYNCHRONOUS, (0.01, 0.01, 0.01, 0.0, 0.0), 32, 3200.0)
SHOWN = Curves(WORK, SPEED, CURVE, Target(0.005, 10, 100))
SILENT = Curves(WORK, SPEED, CURVE)


def test_half_way_the_losses_say_how_much_is_left() -> None:
    found = SeenLosses().left(job("train"), SHOWN, WORK / 2)
    assert found is not None
    assert abs(found.middle - WORK / 2) < 0.25 * WORK
    assert found.spread < 0.7


def test_before_the_losses_say_anything_only_the_most_is_known() -> None:
    found = SeenLosses().epochs_left(job("train"), SHOWN, 2.5)
    assert found is not None and found.only_most
    assert found.epochs.mean == 100 - 2.5


def test_a_job_without_losses_keeps_the_work_that_is_known() -> None:
    source = FromLosses()
    assert source.outlook(job("train"), SILENT, None, 5.0).left == WORK - 5.0
    assert source.outlook(job("train"), SHOWN, None, 5.0).left != WORK - 5.0


def test_a_job_that_comes_again_is_followed_anew() -> None:
    source = FromLosses()
    late = source.outlook(job("train"), SHOWN, None, WORK / 2).left
    source.ended(job("train"), WORK)
    assert source.outlook(job("train"), SHOWN, None, 1.0).left > late
