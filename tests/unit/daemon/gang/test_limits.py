"""The time limit of a run: warned before, stopped at it, counted over restarts."""

import signal

from muster.daemon.gang.events import LimitReached
from muster.model.event import Outcome
from muster.model.job import Program
from muster.model.view import Phase
from muster.wire.tasks.messages import CheckpointNow
from tests.builders import job
from tests.unit.daemon.rig import Rig, fixed, restored


def test_a_run_is_warned_then_stopped_and_the_job_fails() -> None:
    rig = fixed(time=7200.0, warn=300.0, warn_signal="SIGUSR2")
    assert [timer.seconds for timer in rig.done.timers] == [6900.0, 7200.0]
    rig.pass_time()
    sent = [number for name, number in rig.done.signals if name == "worker-0"]
    assert sent == [signal.SIGUSR2, signal.SIGTERM]
    rig.pass_time()
    assert rig.done.signals[-1] == ("worker-1", signal.SIGKILL)
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGKILL)
    assert (rig.ended.outcome, rig.ended.error) == (Outcome.FAILED, "time limit of 2h reached")


def test_without_a_signal_of_its_own_the_warning_is_the_checkpoint_signal() -> None:
    rig = fixed(time=100.0, checkpoint_signal="SIGUSR1")
    rig.pass_time()
    assert rig.done.signals[0] == ("worker-0", signal.SIGUSR1)


def test_a_live_job_is_asked_for_a_checkpoint() -> None:
    rig = Rig(job("j", 1, most=4, program=Program(time=3600.0)))
    rig.run_all()
    for name in ("worker-0", "worker-1"):
        rig.greet(name)
    rig.train(1, "worker-0", "worker-1")
    rig.pass_time()
    asked = [name for name, message in rig.done.said if isinstance(message, CheckpointNow)]
    assert asked == ["worker-0", "worker-1"]


def test_a_limit_goes_on_after_a_restart_of_the_daemon() -> None:
    rig = fixed(time=100.0, warn=10.0)
    rig.passed += 50.0
    again = restored(rig)
    left = [timer.seconds for timer in again.done.timers]
    assert len(left) == 2
    assert left[1] < 50.0


def test_waiting_does_not_count_and_a_new_run_has_the_whole_time() -> None:
    rig = fixed(time=100.0)
    rig.preempt()
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGTERM)
    assert rig.state.phase is Phase.WAITING
    rig.pass_time()
    assert not rig.done.signals[4:]
    rig.start()
    assert rig.names == {"worker-0", "worker-1"}, "the limit of the first run is nothing to the second"


def test_a_job_that_waits_to_restart_is_over_at_its_limit() -> None:
    rig = fixed(time=1000.0)
    rig.end("worker-0", None, signal.SIGKILL)
    rig.end("worker-1", None, signal.SIGTERM)
    assert not rig.names
    rig.react(LimitReached(rig.state.run))
    assert rig.ended.error == "time limit of 16m40s reached"
