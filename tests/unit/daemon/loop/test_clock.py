"""The daemon's clock, while the machine's is set."""

import pytest

from muster.daemon.loop.clock import RealClock


class Machine:
    """A clock that people set, and one that they cannot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown, self.true = 1_000.0, 50.0
        monkeypatch.setattr("time.time", lambda: self.shown)
        monkeypatch.setattr("time.monotonic", lambda: self.true)

    def passes(self, seconds: float, jumps: float = 0.0) -> None:
        self.true += seconds
        self.shown += seconds + jumps


@pytest.mark.parametrize("jump", [-86_400.0, -0.5, 0.5, 86_400.0])
def test_a_clock_that_jumps_is_not_followed(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    machine = Machine(monkeypatch)
    clock = RealClock()
    assert clock.now() == 1_000.0
    machine.passes(5.0, jumps=jump)
    assert clock.now() == 1_005.0
    machine.passes(1.0)
    assert clock.now() == 1_006.0


def test_after_a_restart_nothing_happens_before_what_has_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    machine.passes(0.0, jumps=-500.0)
    clock = RealClock(not_before=1_000.0)
    assert clock.now() == 1_000.0
    machine.passes(2.0)
    assert clock.now() == 1_002.0
    assert RealClock(not_before=200.0).now() == 502.0, "a journal of the past holds nobody up"
