"""State goes to a joiner while the donor trains: what arrives is the donor's, to the last bit."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from muster.runtime.errors import BrokenGroupError
from muster.runtime.members.peers import PeerServer
from muster.runtime.state import transfer
from muster.runtime.state.state import TrainingState
from muster.runtime.state.transfer import Donor, Joiner
from tests.runtime.scripts.jobs import LONG

TOKEN = "a token"


def make_state(seed: int) -> TrainingState:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 4), nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01 * (seed + 1))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    return TrainingState(model, optimizer, schedule)


def gradients(step: int) -> list[Tensor]:
    """What the members' sum would be."""
    random = torch.Generator().manual_seed(step)
    shapes = [p.shape for p in make_state(0).parameters]
    return [torch.randn(shape, generator=random) for shape in shapes]


def update(state: TrainingState, step: int, hidden: list[int]) -> None:
    for index, (parameter, grad) in enumerate(zip(state.parameters, gradients(step), strict=True)):
        parameter.grad = None if index in hidden else grad.clone()
    state.optimizer.step()
    state.scheduler.step()


def check_equal(a: TrainingState, b: TrainingState) -> None:
    for (name, one), other in zip(
        a.model.state_dict().items(), b.model.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other), name
    for p, q in zip(a.parameters, b.parameters, strict=True):
        kept, other = a.optimizer.state[p], b.optimizer.state[q]
        assert kept.keys() == other.keys()
        assert all(torch.equal(kept[key], other[key]) for key in kept)
    assert a.settings() == b.settings()
    assert a.scheduler.state_dict() == b.scheduler.state_dict()


@pytest.fixture
def peers() -> Iterator[PeerServer]:
    one = PeerServer("127.0.0.1", TOKEN)
    one.start()
    yield one
    one.close()


def join(state: TrainingState, peers: PeerServer, task: str = "worker-1") -> Joiner:
    return Joiner(state, task, "worker-0", peers.address, TOKEN, LONG)


def train_together(
    donor: Donor, mine: TrainingState, joiner: Joiner, theirs: TrainingState, first: int
) -> int:
    """Steps until the joiner has it all, and one more; how many it took."""
    step, complete = first, False
    while True:
        donor.open(step)
        joiner.settle(step)
        donor.shut()
        update(mine, step, [])
        update(theirs, step, joiner.before_update(step + 1))
        step += 1
        if complete:
            return step - first
        complete = joiner.complete is not None and joiner.complete < step


@pytest.mark.parametrize("slow", [False, True])
def test_the_state_arrives_while_it_changes(
    slow: bool, peers: PeerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = make_state(0), make_state(7)
    donor = Donor(mine)
    donor.listen(peers)
    for step in range(5):
        donor.open(step)
        donor.shut()
        update(mine, step, [])
    mine.model[1].running_mean += 1.0
    if slow:
        hold_up(monkeypatch)
    joiner = join(theirs, peers)
    donor.await_joiners(1, LONG)
    steps = train_together(donor, mine, joiner, theirs, 5)
    # Eight parameters. While one is under way the window shuts, so each step brings one or two.
    assert steps >= 4 if slow else steps >= 2
    check_equal(mine, theirs)
    joiner.close()


def hold_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor takes longer than a step of this test."""
    send, pause = vars(transfer)["send_tensor"], threading.Event()

    def slow(*args: Any) -> None:
        pause.wait(0.02)
        send(*args)

    monkeypatch.setattr(transfer, "send_tensor", slow)


def test_two_joiners_at_once(peers: PeerServer) -> None:
    mine, second, third = make_state(0), make_state(1), make_state(2)
    donor = Donor(mine)
    donor.listen(peers)
    joiners = [join(second, peers), join(third, peers, "worker-2")]
    donor.await_joiners(2, LONG)
    donor.open(0, whole=True)
    for joiner in joiners:
        joiner.wait_complete()
        joiner.close()
    donor.shut()
    for state in (second, third):
        assert all(
            map(torch.equal, mine.model.state_dict().values(), state.model.state_dict().values())
        )
        assert state.settings() == mine.settings()


def test_a_donor_that_ends(peers: PeerServer) -> None:
    donor = Donor(make_state(0))
    donor.listen(peers)
    joiner = join(make_state(1), peers)
    donor.await_joiners(1, LONG)
    donor.close()
    with pytest.raises(BrokenGroupError, match="worker-0 stopped sending its state"):
        joiner.wait_complete()
    joiner.close()


def test_nobody_there() -> None:
    gone = PeerServer("127.0.0.1", TOKEN)
    gone.close()
    with pytest.raises(BrokenGroupError, match="worker-0 does not send its state"):
        join(make_state(1), gone)


def test_a_joiner_that_goes_does_not_hold_up_the_donor(peers: PeerServer) -> None:
    donor = Donor(make_state(0))
    donor.listen(peers)
    joiner = join(make_state(1), peers)
    donor.await_joiners(1, LONG)
    joiner.close()
    donor.open(0)
    donor.shut()  # returns: who is gone is owed nothing


def test_nobody_comes(peers: PeerServer) -> None:
    with pytest.raises(BrokenGroupError, match="only 0 of 1"):
        Donor(make_state(0)).await_joiners(1, 0.01)


def wait_sent(joiner: Joiner) -> None:
    """Wait until all trained parameters have come."""
    count = len(joiner._state.parameters)
    with joiner._change:
        assert joiner._change.wait_for(lambda: len(joiner._came) == count, LONG)


def sent_all(mine: TrainingState, theirs: TrainingState, peers: PeerServer) -> tuple[Donor, Joiner]:
    """A donor in the window in which its joiner has got all trained parameters."""
    donor = Donor(mine)
    donor.listen(peers)
    donor.open(0)
    joiner = join(theirs, peers)
    donor.await_joiners(1, LONG)
    donor.shut()
    donor.open(1)
    wait_sent(joiner)
    return donor, joiner


def in_time(act: Callable[[], None]) -> bool:
    """Whether an act that a fault would block for good comes back."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(LONG)
    return not thread.is_alive()


def test_a_step_is_redone_when_a_joiner_has_all_of_its_window(peers: PeerServer) -> None:
    donor, joiner = sent_all(make_state(0), make_state(1), peers)
    donor.open(1)  # somebody died: the step begins again, and its window with it
    assert in_time(donor.shut)
    joiner.learn(2)
    donor.open(2)
    joiner.settle(2)
    assert joiner.complete == 2
    joiner.close()
    donor.close()


def test_a_step_has_two_updates_when_a_joiner_has_all_parameters(peers: PeerServer) -> None:
    """Between the two of a GAN it gets nothing: the rest is sent when the next step begins."""
    donor, joiner = sent_all(make_state(0), make_state(1), peers)
    donor.shut()
    joiner.learn(2)
    donor.open(2, between=True)
    assert in_time(donor.shut)
    joiner.learn(3)
    donor.open(3)
    joiner.settle(3)
    assert joiner.complete == 3
    joiner.close()
    donor.close()


def test_a_joiner_asks_again(peers: PeerServer) -> None:
    """Its old connection, of which the donor knows nothing yet, is not taken for the new one."""
    mine, theirs = make_state(0), make_state(1)
    donor, old = sent_all(mine, theirs, peers)
    old.close()
    donor.shut()
    joiner = join(theirs, peers)
    window = 2
    while joiner.complete is None:
        donor.open(window)
        joiner.settle(window)
        assert in_time(donor.shut)
        window += 1
        joiner.learn(window)
    check_equal(mine, theirs)
    joiner.close()
    donor.close()


@pytest.mark.parametrize("served", [False, True])
def test_an_update_has_the_hyper_parameters_of_its_moment(served: bool, peers: PeerServer) -> None:
    """The donor's loop sets them between the opening of a window and its update."""
    mine, theirs = make_state(0), make_state(1)
    donor = Donor(mine)
    donor.listen(peers)
    donor.open(0)
    joiner = join(theirs, peers)
    donor.await_joiners(1, LONG)
    donor.shut()
    donor.open(1)
    joiner.settle(1)
    if served:
        wait_sent(joiner)
    mine.optimizer.param_groups[0]["lr"] *= 0.5
    donor.shut()
    joiner.learn(2)
    assert theirs.optimizer.param_groups[0]["lr"] == mine.optimizer.param_groups[0]["lr"]
    joiner.close()
    donor.close()
