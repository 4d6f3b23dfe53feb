"""How tasks are brought to an end, step by step."""

import signal

from muster.daemon.gang.events import KillLeft, Terminate
from muster.daemon.gang.steer import KILL_AGAIN
from muster.wire.tasks.messages import Stop
from tests.unit.daemon.rig import fixed, live

TERM, KILL, USR1 = signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1


def test_a_plain_job_gets_sigterm_and_after_its_grace_sigkill_until_it_is_gone() -> None:
    rig = fixed(grace=7.0)
    rig.preempt()
    assert rig.done.signals == [("worker-0", TERM), ("worker-1", TERM)]
    assert [timer.seconds for timer in rig.done.timers] == [7.0]
    rig.end("worker-0", None, TERM)
    for again in range(3):
        rig.done.signals.clear()
        rig.pass_time()
        assert rig.done.signals == [("worker-1", KILL)], again
        assert [timer.seconds for timer in rig.done.timers] == [KILL_AGAIN]
    rig.end("worker-1", None, KILL)
    rig.done.signals.clear()
    rig.pass_time()
    assert rig.done.signals == []
    assert rig.state.phase == "waiting"


def test_a_checkpoint_signal_comes_before_sigterm_when_the_job_will_run_again() -> None:
    rig = fixed(checkpoint_signal="SIGUSR1", checkpoint_grace=60.0)
    rig.preempt()
    assert {number for _, number in rig.done.signals} == {USR1}
    (timer,) = rig.done.timers
    assert (timer.seconds, type(timer.timeout)) == (60.0, Terminate)
    rig.done.signals.clear()
    rig.pass_time()
    assert {number for _, number in rig.done.signals} == {TERM}


def test_a_job_stopped_by_its_user_needs_no_checkpoint() -> None:
    rig = fixed(checkpoint_signal="SIGUSR1")
    rig.cancel()
    assert {number for _, number in rig.done.signals} == {TERM}


def test_a_live_job_is_asked_first() -> None:
    rig = live()
    rig.done.signals.clear()
    rig.preempt()
    assert rig.done.signals == []
    assert {task for task, message in rig.done.said if isinstance(message, Stop)} == rig.names
    rig.pass_time()
    assert {number for _, number in rig.done.signals} == {TERM}


def test_a_timeout_of_an_earlier_stop_does_nothing() -> None:
    rig = fixed()
    rig.preempt()
    rig.cancel()
    rig.done.signals.clear()
    number = rig.sight.stops
    rig.react(KillLeft(number - 1))
    assert rig.done.signals == []
    rig.react(KillLeft(number))
    assert {each for _, each in rig.done.signals} == {KILL}
