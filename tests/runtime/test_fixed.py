"""Frozen weights go to a joiner only where they differ, and again if they change meanwhile."""

import contextlib
import socket
import threading

import pytest
import torch
from torch import Tensor, nn

from muster.runtime.errors import CannotJoinError
from muster.runtime.state import fixed
from muster.runtime.state.fixed import FixedSender, digest, receive_fixed, stamp
from muster.runtime.state.module_numbers import ModuleNumbers


def serve(sender: FixedSender, here: socket.socket, mine: dict[str, Tensor]) -> None:
    with contextlib.suppress(ConnectionError):  # who refuses goes away
        sender.send(here, mine)


def exchange(mine: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    here, there = socket.socketpair()
    with here, there:
        sender = FixedSender(lambda tensor: tensor)
        thread = threading.Thread(target=serve, args=(sender, here, mine))
        thread.start()
        try:
            receive_fixed(there, theirs)
        finally:
            there.close()
            thread.join()


def test_only_what_differs_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {"same": torch.ones(3), "other": torch.arange(4.0)}
    theirs = {"same": torch.ones(3), "other": torch.zeros(4)}
    sent: list[int] = []
    send = vars(fixed)["send_tensor"]

    def noted(sock: socket.socket, tensor: Tensor) -> None:
        sent.append(tensor.numel())
        send(sock, tensor)

    monkeypatch.setattr(fixed, "send_tensor", noted)
    exchange(mine, theirs)
    assert torch.equal(theirs["other"], mine["other"])
    assert sent == [4]


def test_another_shape_is_refused() -> None:
    with pytest.raises(CannotJoinError, match="every worker must build the same model"):
        exchange({"a": torch.ones(3)}, {"a": torch.ones(4)})


@pytest.mark.parametrize("how", ["in place", "data", "replaced"])
def test_a_change_shows(how: str) -> None:
    tensor = nn.Parameter(torch.randn(100, 100), requires_grad=False)
    before = stamp(tensor)
    assert stamp(tensor) == before
    if how == "in place":
        tensor[5, 5] += 1
    elif how == "data":
        tensor.data.mul_(0.99)  # torch counts no version
    else:
        tensor.data = tensor.data.clone()
    assert stamp(tensor) != before


def test_a_digest_is_of_the_elements() -> None:
    tensor = torch.randn(6, 4)
    assert digest(tensor.T) == digest(tensor.T.contiguous()) != digest(tensor)


class Counter(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.width = 0, 3


def test_numbers_of_modules_that_change() -> None:
    model, other = Counter(), Counter()
    numbers = ModuleNumbers(lambda: iter([("", model)]))
    numbers.start()
    model.calls += 1
    numbers.begin(1)
    assert numbers.changed() == {".calls": 1}
    model.calls += 1
    numbers.redo()
    assert model.calls == 1
    theirs = ModuleNumbers(lambda: iter([("", other)]))
    theirs.start()
    theirs.set(numbers.changed())
    assert (other.calls, other.width) == (1, 3)
