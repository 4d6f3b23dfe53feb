"""Members that differ are found, named and left behind; those that do not are left alone."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from muster.runtime.members.ballot import Vote
from muster.runtime.state.agreement import Agreement, difference
from muster.runtime.state.checksum import bit_sum, leaves, piece, pieces
from muster.runtime.state.guard import CYCLE, SOON, Guard, compare, differ
from muster.runtime.state.state import TrainingState
from tests.runtime.comm_members import together

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8]


def make_state(wide: int = 5) -> TrainingState:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, wide), nn.BatchNorm1d(wide), nn.Linear(wide, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    state = TrainingState(model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 3))
    for _ in range(2):
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    return state


@given(
    count=st.integers(1, 70),
    kind=st.sampled_from(TYPES),
    begin=st.integers(0, 3),
    where=st.integers(0, 10**6),
)
def test_every_bit_counts(count: int, kind: torch.dtype, begin: int, where: int) -> None:
    tensor = torch.arange(count + begin).to(kind)[begin:]
    before = int(bit_sum(tensor))
    assert int(bit_sum(tensor.clone())) == before
    if begin == 0:
        bits = tensor.view(torch.uint8)
        bits[where % len(bits)] ^= 1 << where % 8
        assert int(bit_sum(tensor)) != before


def test_a_transposed_or_empty_tensor_has_a_sum() -> None:
    tensor = torch.randn(5, 7)
    assert int(bit_sum(tensor.T)) == int(bit_sum(tensor.T.contiguous()))
    assert int(bit_sum(torch.empty(0))) == 0
    assert int(bit_sum(torch.randn(3, dtype=torch.complex64))) != 0


def test_pieces_make_up_the_whole() -> None:
    tensor = torch.arange(3_000_000)
    assert torch.equal(torch.cat([piece(tensor, i) for i in range(pieces(tensor))]), tensor)


def test_everything_is_looked_at_within_a_cycle() -> None:
    state = make_state()
    guard = Guard(state)
    guard.begin(0, holds=True)
    seen = {unit.entry.name for turn in range(CYCLE) for unit in guard._turns.get(turn, [])}
    assert {"0.weight", "2.bias", "exp_avg of 0.weight", "step of 2.bias", "", "schedule 0"} <= seen
    # Its averages are each worker's own.
    assert not any("running" in name for name in seen)


def seals(state: TrainingState) -> list[tuple[float, float]]:
    guard, found = Guard(state), []
    for step in range(CYCLE):
        guard.begin(step, holds=True)
        found.append(guard.seal())
    return found


def test_a_change_shows_within_a_cycle() -> None:
    same = seals(make_state())
    assert seals(make_state()) == same
    changes: list[Callable[[TrainingState], Any]] = [
        lambda s: s.parameters[0].data.view(-1)[3:4].mul_(1.0000002),
        lambda s: s.optimizer.param_groups[0].update(lr=0.02),
        lambda s: s.optimizer.state[s.parameters[2]]["exp_avg"].add_(1e-9),
        lambda s: s.scheduler.step(),
    ]
    for act in changes:
        state = make_state()
        act(state)
        assert seals(state) != same


def test_a_newcomer_is_looked_at_whole_within_a_few_steps() -> None:
    mine, theirs = make_state(), make_state()
    with torch.no_grad():
        theirs.model[2].weight[0] += 1
    crew = SimpleNamespace(formation=2)
    here, there = (Agreement(state, torch.device("cpu")) for state in (mine, theirs))
    for step in range(100, 100 + 2 * SOON):
        joined = step >= 100 + SOON
        for each, holds in ((here, True), (there, joined)):
            each.begin(step, holds, False)
        votes = [Vote(**here.opinion()), Vote(**there.opinion())]
        if differ(votes):
            break
        for each in (here, there):
            each.check(votes, crew, True)
    assert joined and step <= 100 + 2 * SOON
    assert differ(votes)


def test_no_opinion_without_the_state() -> None:
    guard = Guard(make_state())
    guard.begin(0, holds=False)
    assert guard.seal() == (0.0, 0.0)


def test_only_members_with_the_same_hardware_are_compared() -> None:
    one, other = Vote(seal=5.0, hardware=1.0), Vote(seal=6.0, hardware=1.0)
    assert differ([one, other])
    assert not differ([one, one, Vote(seal=6.0, hardware=2.0), Vote(hardware=1.0)])
    assert differ([one, Vote(seal=5.0, seal_too=1.0, hardware=1.0)])


def compared(size: int, odd: dict[int, object]) -> list[object]:
    """What each member finds; `odd`: what a rank does to its own state."""
    states = [make_state() for _ in range(size)]
    for rank, act in odd.items():
        act(states[rank])  # type: ignore[operator]
    return together(
        size, lambda group: compare(group, group.rank, size, Guard(states[group.rank]), holds=True)
    )


def test_the_majority_is_found_and_the_cause_named_before_its_effects() -> None:
    def lower(state: TrainingState) -> None:
        state.optimizer.param_groups[0]["lr"] = 0.5
        with torch.no_grad():
            state.parameters[1].mul_(2)

    found = compared(3, {0: lower})
    assert all(each == found[0] for each in found)
    assert (found[0].most, found[0].others) == ((1, 2), (0,))  # type: ignore[attr-defined]
    text = difference(found[0], ("worker-0", "worker-1", "worker-2"), 41)  # type: ignore[arg-type]
    assert text.startswith(
        "worker-0 left after step 41: its state differs from that of the other 2 workers, who "
        "continue: lr of parameter group 0 (and 1 more). Likely, it was set on some workers only"
    )


def test_two_that_differ_have_no_majority() -> None:
    found = compared(2, {1: lambda state: state.scheduler.step()})[0]
    assert (found.most, found.others) == ((), (0, 1))  # type: ignore[attr-defined]
    text = difference(found, ("worker-0", "worker-1"), 7)  # type: ignore[arg-type]
    assert "worker-0 and worker-1 have different states after step 7" in text
    assert "schedule 0" in text


def test_rounding_is_no_difference() -> None:
    def rounded(state: TrainingState) -> None:
        with torch.no_grad():
            for parameter in state.parameters:
                parameter.mul_(1 + 1e-7)

    found = compared(2, {1: rounded})[0]
    assert found.others == ()  # type: ignore[attr-defined]


def test_another_number_of_tensors() -> None:
    def more(state: TrainingState) -> None:
        state.optimizer.state[state.parameters[0]]["odd"] = torch.ones(2)

    found = compared(3, {2: more})[0]
    assert (found.others, found.kind) == ((2,), "structure")  # type: ignore[attr-defined]


def test_names_of_what_is_inside() -> None:
    value: dict[str, object] = {"a": [1, Tensor()], "b": {"c": (2.0,)}}
    assert [name for name, _ in leaves(value, "kept")] == ["kept.a[0]", "kept.a[1]", "kept.b.c[0]"]
