"""What a training says of itself: how long it is, what each step took, and at which pace."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from muster.roster.roster import Roster
from muster.runtime.launch.coordinator import Coordinator
from muster.runtime.launch.history import History
from muster.runtime.settings import TaskSettings
from muster.runtime.user.session import Session
from muster.wire.tasks.messages import Captured, Message, StepDone

SAMPLES = 20


class Heard(History):
    """Keeps every message."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Message] = []

    def note(self, message: Message, now: float) -> None:
        """Take a message in."""
        self.all.append(message)
        super().note(message, now)


class Streams:
    """Two shards of ten samples."""

    def shards(self) -> int:
        return 2

    def shard(self, index: int) -> Any:
        return iter([(torch.ones(3), torch.ones(1))] * 10)


def train(
    dataset: Any, sample_seconds: float = 0.0, until: Callable[[float], bool] | None = None, **data: Any
) -> list[Message]:
    """Train in this very process, as the only worker of a real coordinator; what it heard."""
    heard = Heard()
    coordinator = Coordinator("j", "secret", Roster(), heard, lambda *_: None, lambda _: None)
    coordinator.resize(1)
    who = ("j", "worker-0", "worker", coordinator.address, "secret")
    try:
        session = Session(TaskSettings(*who, device="cpu", sample_seconds=sample_seconds))
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        session.wrap(model, optimizer)
        session.data(dataset, 8, **data)
        session.until(until)
        for x, y in session.steps():
            optimizer.zero_grad()
            losses: Tensor = ((model(x) - y) ** 2).squeeze(1)
            session.backward(losses)
            optimizer.step()
    finally:
        coordinator.close()
    return heard.all


@pytest.fixture(autouse=True)
def hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session with a coordinator puts a hook of its own there."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


@pytest.fixture
def table() -> TensorDataset:
    return TensorDataset(torch.randn(SAMPLES, 3), torch.randn(SAMPLES, 1))


def test_a_virtual_device_takes_its_time(table: TensorDataset) -> None:
    each = 0.005
    done = [m for m in train(table, each, epochs=2) if isinstance(m, StepDone)]
    assert [one.samples for one in done] == [8, 8, 4] * 2
    for one in done:
        assert one.forward + one.backward >= one.samples * each
    # The first step of a formation follows none; every other takes all of its computing.
    assert done[0].seconds == 0
    assert all(one.seconds >= one.samples * each for one in done[1:])
    assert all(one.holds for one in done)


@pytest.mark.parametrize(
    ("ends", "steps"),
    [
        ({"epochs": 2}, 6),
        ({"epochs": 2, "drop_last": True}, 4),
        ({"steps": 4}, 4),
        ({"epochs": 2, "steps": 5}, 5),
        ({"epochs": 1, "until": lambda _: True}, 0),
    ],
)
def test_how_long_it_will_be(table: TensorDataset, ends: dict[str, Any], steps: int) -> None:
    messages = train(table, **ends)
    (captured,) = [m for m in messages if isinstance(m, Captured)]
    assert (captured.steps, captured.batch) == (steps, 8)
    if steps:
        assert max(m.step for m in messages if isinstance(m, StepDone)) == steps


@pytest.mark.parametrize(("ends", "steps"), [({"epochs": 1}, 0), ({"steps": 2}, 2)])
def test_nobody_knows_how_long_streams_are(ends: dict[str, Any], steps: int) -> None:
    (captured,) = [m for m in train(Streams(), **ends) if isinstance(m, Captured)]
    assert captured.steps == steps
