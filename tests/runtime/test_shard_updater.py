"""Owners that update: what comes out is what the optimiser's own step gives, whoever owns what."""

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn, optim

from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.sharded import Sharded, cut
from muster.runtime.errors import BadTrainingError, MusterError
from muster.runtime.shards.ownership import (
    LostShardError,
    OwnedRange,
    Range,
    RangeMove,
    held_by,
    holdings,
    mirror_of,
    moves,
)
from muster.runtime.shards.shard_updater import ShardUpdater
from muster.runtime.shards.state_pieces import Piece, joined, receive_pieces, send_pieces
from muster.runtime.step.buckets import GradientSlot
from tests.runtime.comm_members import StoreServer

SHAPES = ((4, 5), (5,), (), (3, 7), (11,))
SLOTS = (
    GradientSlot(4, 0, 0, 11),
    GradientSlot(2, 0, 11, 12),
    GradientSlot(0, 0, 12, 32),
    GradientSlot(3, 1, 0, 21),
    GradientSlot(1, 1, 21, 26),
)
"""Two buckets of 32 and 26 elements; the first mixes parameters of both groups."""
LENGTHS = (32, 26)
CHUNK = 5

Make = Callable[[Any], Any]


def made(kind: Any, **options: Any) -> Make:
    return lambda groups: kind(groups, **options)


OPTIMISERS = {
    "sgd": made(optim.SGD, lr=0.1),
    "decay": made(optim.SGD, lr=0.1, weight_decay=0.01),
    "momentum": made(optim.SGD, lr=0.1, momentum=0.9, dampening=0.3),
    "nesterov": made(optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "maximize": made(optim.SGD, lr=0.1, momentum=0.9, maximize=True),
    "adam": made(optim.Adam, lr=0.01, weight_decay=0.01),
    "amsgrad": made(optim.Adam, lr=0.01, amsgrad=True),
    "adamw": made(optim.AdamW, lr=0.01, betas=(0.8, 0.99)),
    "foreach": made(optim.AdamW, lr=0.01, foreach=True),
    "fused": made(optim.Adam, lr=0.01, fused=True),
    "tensor rate": made(optim.Adam, lr=torch.tensor(0.01)),
    "adagrad": made(optim.Adagrad, lr=0.1, lr_decay=0.01, initial_accumulator_value=0.5),
    "rmsprop": made(optim.RMSprop, lr=0.01, momentum=0.9, centered=True),
}


def parameters() -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def optimiser(make: Make, own: Sequence[Any]) -> Any:
    """Two groups; the second has its own rate."""
    return make([{"params": [own[0], own[3], own[4]]}, {"params": [own[1], own[2]], "lr": 0.003}])


def ranges(*cuts: Sequence[int]) -> list[Range]:
    """Ranges of each bucket between cut points."""
    return [
        Range(bucket, begin, end)
        for bucket, inside in enumerate(cuts)
        for begin, end in pairwise([0, *inside, LENGTHS[bucket]])
    ]


def plan(tasks: Sequence[str], seed: int = 0) -> list[OwnedRange]:
    """Every task owns a range of each bucket, cut in the middle of tensors."""
    count = len(tasks)
    inside = [[(i * n + seed) // count for i in range(1, count)] for n in LENGTHS]
    found = ranges(*inside)
    return holdings(
        [(range_, (i + seed) % count) for i, range_ in enumerate(found)], tasks, range(count)
    )


class Members:
    """Members of a plan that sum, update and mirror as a communicator would have them do."""

    def __init__(self, make: Make, holding: Sequence[OwnedRange], tasks: Sequence[str]) -> None:
        self.plan = list(holding)
        self.own = {task: parameters() for task in tasks}
        self.optimisers = {task: optimiser(make, own) for task, own in self.own.items()}
        self.updaters = {
            task: ShardUpdater(self.optimisers[task], self.own[task], SLOTS, held_by(task, holding))
            for task in tasks
        }
        self.flats: list[Tensor] = []

    def sum_up(self, gradients: Sequence[Tensor], stop: int = 10**9) -> None:
        """One step up to its end: the sums become parameters; at most `stop` chunks of them."""
        self.flats = [torch.zeros(n) for n in LENGTHS]
        for slot in SLOTS:
            self.flats[slot.bucket][slot.begin : slot.end] = gradients[slot.parameter].reshape(-1)
        for updater in self.updaters.values():
            updater.begin()
        for holding in self.plan:
            for begin in range(holding.range.begin, holding.range.end, CHUNK):
                if (stop := stop - 1) < 0:
                    return
                self._chunk(holding, begin, min(begin + CHUNK, holding.range.end))

    def _chunk(self, holding: OwnedRange, begin: int, end: int) -> None:
        bucket = holding.range.tensor
        summed = self.flats[bucket][begin:end].clone()
        mirrored = summed.clone()
        self.updaters[holding.owner].after_sum(bucket, begin, end, summed)
        if holding.mirror is not None:
            self.updaters[holding.mirror].after_sum(bucket, begin, end, mirrored)
            assert torch.equal(mirrored, summed)  # the mirror needs no parameters from the owner
        self.flats[bucket][begin:end] = summed

    def commit(self, unused: Sequence[int] = ()) -> None:
        for updater in self.updaters.values():
            updater.commit(self.flats, unused)

    def step(self, gradients: Sequence[Tensor], unused: Sequence[int] = ()) -> None:
        self.sum_up(gradients)
        self.commit(unused)

    def change(self, new: Sequence[OwnedRange], lost: Sequence[str] = ()) -> None:
        """Another plan: state moves from living holders."""
        sent: dict[str, list[Piece]] = {}
        for move in moves(self.plan, new, lost):
            sent.setdefault(move.target, []).extend(self.updaters[move.source].state_of([move.range]))
        for task in lost:
            del self.updaters[task], self.own[task], self.optimisers[task]
        for task, updater in self.updaters.items():
            updater.hold(held_by(task, new))
            updater.load_state(sent.get(task, []))
        self.plan = list(new)

    def collected(self) -> dict[str, Any]:
        """The whole state, from the owners alone."""
        found: list[Piece] = []
        for holding in self.plan:
            found += self.updaters[holding.owner].state_of([holding.range])
        return next(iter(self.updaters.values())).collect(found)


class Plain:
    """The same training with the optimiser's own step."""

    def __init__(self, make: Make) -> None:
        self.own = parameters()
        self.optimiser = optimiser(make, self.own)

    def step(self, gradients: Sequence[Tensor], unused: Sequence[int] = ()) -> None:
        for index, (parameter, gradient) in enumerate(zip(self.own, gradients, strict=True)):
            parameter.grad = None if index in unused else gradient.clone()
        self.optimiser.step()


def gradients_of(step: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


def alike(members: Members, plain: Plain) -> None:
    for own in members.own.values():
        for mine, other in zip(own, plain.own, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-7)


TASKS = ("w0", "w1", "w2")


@pytest.mark.parametrize("make", OPTIMISERS.values(), ids=OPTIMISERS.keys())
def test_the_update_of_shards_is_the_optimisers_own_step(make: Make) -> None:
    members, plain = Members(make, plan(TASKS), TASKS), Plain(make)
    for step in range(6):
        members.step(gradients_of(step))
        plain.step(gradients_of(step))
        alike(members, plain)


@pytest.mark.parametrize("make", OPTIMISERS.values(), ids=OPTIMISERS.keys())
def test_owners_move_and_die_and_the_result_stays_the_same(make: Make) -> None:
    members, plain = Members(make, plan(TASKS), TASKS), Plain(make)
    changes: dict[int, tuple[list[OwnedRange], list[str]]] = {
        2: (plan(TASKS, seed=2), []),
        3: (plan(("w0", "w2")), ["w1"]),
        5: (plan(("w2",)), ["w0"]),
    }
    for step in range(7):
        if step in changes:
            members.change(*changes[step])
        members.step(gradients_of(step))
        plain.step(gradients_of(step))
        alike(members, plain)


def test_members_of_a_real_group() -> None:
    """Three members in threads: real chunks, summed by their owners and sent back as parameters."""
    make = OPTIMISERS["adam"]
    plain = Plain(make)
    lengths, shares = (*LENGTHS, 2), {0: 0.5, 1: 0.2, 2: 0.3}
    chunks = cut(LENGTHS, [65536] * 2, shares)
    owned = [(Range(chunk.bucket, chunk.begin, chunk.end), chunk.owner) for chunk in chunks]
    server = StoreServer()
    ends: dict[int, list[Any]] = {}

    def train(rank: int) -> None:
        group = GlooGroup(server.client("1-update", 30.0), rank, 3, "127.0.0.1")
        own = parameters()
        held = [range_ for range_, owner in owned if owner == rank]
        updater = ShardUpdater(optimiser(make, own), own, SLOTS, held)
        flats = [torch.zeros(n) for n in lengths]
        communicator = Sharded(group, flats, shares, after_sum=updater.after_sum)
        for step in range(3):
            updater.begin()
            communicator.begin()
            for slot in SLOTS:
                part = gradients_of(step)[slot.parameter].reshape(-1) / 3
                flats[slot.bucket][slot.begin : slot.end] = part
            flats[2].fill_(rank)
            for bucket in range(3):
                communicator.put(bucket)
            communicator.finish()
            assert flats[2].tolist() == [3, 3]  # the ballot: 0 + 1 + 2
            updater.commit(flats)
        communicator.close()
        ends[rank] = own

    threads = [threading.Thread(target=train, args=(rank,), daemon=True) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    server.close()
    for step in range(3):
        plain.step(gradients_of(step))
    for rank in range(3):
        for mine, other in zip(ends[rank], plain.own, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_rates_follow_a_scheduler() -> None:
    make = OPTIMISERS["momentum"]
    members, plain = Members(make, plan(TASKS), TASKS), Plain(make)
    for step in range(4):
        members.step(gradients_of(step))
        plain.step(gradients_of(step))
        for tuned in [plain.optimiser, *members.optimisers.values()]:
            for group in tuned.param_groups:
                group["lr"] *= 0.5
    alike(members, plain)


@pytest.mark.parametrize("name", ["momentum", "adam", "adagrad"])
def test_a_broken_step_is_taken_back_and_done_again(name: str) -> None:
    make = OPTIMISERS[name]
    members, plain = Members(make, plan(TASKS), TASKS), Plain(make)
    for step in range(4):
        members.sum_up(gradients_of(50), stop=4 * step)
        with pytest.raises(MusterError, match="before all of its chunks"):
            members.commit()
        for updater in members.updaters.values():
            updater.rollback()
        members.step(gradients_of(step))
        plain.step(gradients_of(step))
    alike(members, plain)


@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_parameters_without_gradient_stay_as_they_are(name: str) -> None:
    make = OPTIMISERS[name]
    members, plain = Members(make, plan(TASKS), TASKS), Plain(make)
    for step, unused in enumerate([[0], [], [3, 4], []]):
        members.step(gradients_of(step), unused)
        plain.step(gradients_of(step), unused)
    alike(members, plain)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_state_of_all_owners_is_the_state_of_the_optimiser(name: str) -> None:
    make = OPTIMISERS[name]
    members, plain = Members(make, plan(TASKS), TASKS), Plain(make)
    for step in range(3):
        members.step(gradients_of(step))
        plain.step(gradients_of(step))
    mine, other = members.collected(), plain.optimiser.state_dict()
    assert mine["param_groups"] == other["param_groups"]
    assert mine["state"].keys() == other["state"].keys()
    for place, state in other["state"].items():
        assert mine["state"][place].keys() == state.keys()
        for key, value in state.items():
            torch.testing.assert_close(mine["state"][place][key], value, rtol=1e-6, atol=1e-7)


def test_the_optimisers_own_state_is_taken_over() -> None:
    plain = Plain(OPTIMISERS["adam"])
    plain.step(gradients_of(0))
    updater = ShardUpdater(plain.optimiser, plain.own, SLOTS, [Range(1, 3, 9)])
    assert not plain.optimiser.state
    (piece,) = updater.state_of([Range(0, 0, 32), Range(1, 0, 26)])
    assert (piece.parameter, piece.begin, piece.end) == (3, 3, 9)  # slot 3 begins where bucket 1 does
    # Adam, first step: exp_avg = (1 - 0.9) (g + 0.01 p); with g and p of before.
    wanted = 0.1 * (gradients_of(0)[3] + 0.01 * parameters()[3].detach()).reshape(-1)[3:9]
    torch.testing.assert_close(piece.state["exp_avg"], wanted)
    assert piece.state["step"] == 1


def test_parameters_that_are_not_contiguous_or_not_trained() -> None:
    own = [nn.Parameter(torch.arange(6.0).reshape(2, 3).t()), nn.Parameter(torch.ones(2))]
    slots = (GradientSlot(0, 0, 0, 6), GradientSlot(1, 0, 6, 8))
    updater = ShardUpdater(optim.SGD([own[0]], lr=1.0), own, slots, [Range(0, 0, 8)])
    for _ in range(2):
        flat = torch.ones(8)
        updater.begin()
        updater.after_sum(0, 0, 8, flat)
        updater.commit([flat])
    # In the order of rows: 0 3 1 4 2 5, less 1 in each of two steps.
    assert own[0].reshape(-1).tolist() == [-2, 1, -1, 2, 0, 3]
    assert own[1].tolist() == [1, 1]


def test_numbers_of_half_precision() -> None:
    own = [nn.Parameter(torch.ones(4, dtype=torch.bfloat16))]
    updater = ShardUpdater(optim.SGD(own, lr=0.5), own, (GradientSlot(0, 0, 0, 4),), [Range(0, 0, 4)])
    flat = torch.ones(4)
    updater.after_sum(0, 0, 4, flat)
    updater.commit([flat])
    assert own[0].tolist() == [0.5] * 4
    double = [nn.Parameter(torch.ones(4, dtype=torch.float64))]
    updater = ShardUpdater(
        optim.SGD(double, lr=0.5), double, (GradientSlot(0, 0, 0, 4),), [Range(0, 0, 4)]
    )
    with pytest.raises(BadTrainingError, match="float64"):
        updater.after_sum(0, 0, 4, flat)


def test_the_ballot_is_left_alone_and_foreign_chunks_are_refused() -> None:
    own = parameters()
    updater = ShardUpdater(optimiser(OPTIMISERS["sgd"], own), own, SLOTS, [Range(0, 0, 10)])
    ballot = torch.tensor([1.0, 2.0])
    updater.after_sum(2, 0, 2, ballot)
    assert ballot.tolist() == [1, 2]
    with pytest.raises(MusterError, match="does not hold"):
        updater.after_sum(0, 8, 12, torch.zeros(4))


@pytest.mark.parametrize("kind", [optim.LBFGS, optim.NAdam, type("Own", (optim.SGD,), {})])
def test_other_optimisers_are_named_and_refused(kind: Any) -> None:
    own = parameters()
    with pytest.raises(BadTrainingError, match=f'{kind.__name__} .*use owners="reduce"'):
        ShardUpdater(kind(own, lr=0.1), own, SLOTS, [])


def test_state_goes_over_a_connection() -> None:
    plain = Plain(OPTIMISERS["adam"])
    plain.step(gradients_of(0))
    updater = ShardUpdater(plain.optimiser, plain.own, SLOTS, [Range(0, 0, 32)])
    sent = updater.state_of([Range(0, 5, 20)])
    left, right = socket.socketpair()
    with left, right:
        send_pieces(left, sent)
        received = receive_pieces(right)
    assert len(received) == len(sent) == 3
    for mine, other in zip(received, sent, strict=True):
        assert (mine.parameter, mine.begin, mine.end) == (other.parameter, other.begin, other.end)
        assert mine.state.keys() == other.state.keys()
        assert all(torch.equal(mine.state[name], other.state[name]) for name in mine.state)


def test_state_that_does_not_fit_together_is_refused() -> None:
    members = Members(OPTIMISERS["adam"], plan(("w0",)), ("w0",))
    members.step(gradients_of(0))
    updater = members.updaters["w0"]
    # Parameter 0 is elements 12 to 32: in five pieces, for chunks end at 15, 20, 25, 30 and 32.
    first, *rest = [piece for piece in updater.state_of([Range(0, 12, 32)]) if piece.parameter == 0]
    others = updater.state_of([Range(0, 0, 12), Range(1, 0, 26)])
    assert len(rest) == 4
    later = replace(first, state={**first.state, "step": torch.tensor(7.0)})
    assert updater.collect([first, *rest, *others])["state"][0]["step"] == 1
    for wrong in (rest, [first, first, *rest], [*rest, rest[-1]], [later, *rest]):
        with pytest.raises(MusterError, match=r"parameter 0.*does not fit together"):
            updater.collect([*wrong, *others])
    # A piece missing, another as long there twice.
    with pytest.raises(MusterError, match="does not fit together"):
        updater.collect([first, rest[0], rest[0], *rest[2:], *others])


def test_the_mirror_is_the_next_owner_on_another_node() -> None:
    assert [mirror_of(rank, [0, 2, 3]) for rank in (0, 2, 3)] == [2, 3, 0]
    assert [mirror_of(rank, range(4), ["a", "a", "b", "b"]) for rank in range(4)] == [2, 2, 0, 0]
    assert mirror_of(1, range(3), ["a", "a", "a"]) == 2
    # Two servers, ranks 3 and 4, and three workers that mirror them: not the same one for both.
    assert [mirror_of(rank, range(3)) for rank in (3, 4)] == [0, 1]
    assert mirror_of(0, [0]) is None


def test_moves_by_hand() -> None:
    old = [OwnedRange(Range(0, 0, 10), "a", "b"), OwnedRange(Range(0, 10, 20), "b", "a")]
    new = [OwnedRange(Range(0, 0, 15), "c", "b"), OwnedRange(Range(0, 15, 20), "b", "c")]
    # b holds all of it in both plans; c gets it all: from a where a owns, from b beyond.
    assert moves(old, new, []) == [
        RangeMove(Range(0, 0, 10), "a", "c"),
        RangeMove(Range(0, 10, 20), "b", "c"),
    ]
    assert moves(old, new, ["a"]) == [RangeMove(Range(0, 0, 20), "b", "c")]
    with pytest.raises(LostShardError, match=r"elements 0 to 10.*a and b.*checkpoint"):
        moves(old, new, ["a", "b"])
    with pytest.raises(ValueError, match="two ranges"):
        moves(old, [OwnedRange(Range(0, 0, 20), "a"), OwnedRange(Range(0, 5, 9), "b")], [])
    with pytest.raises(ValueError, match="same elements"):
        moves(old, [OwnedRange(Range(0, 0, 15), "a")], [])


def plans(tasks: Sequence[str]) -> st.SearchStrategy[list[OwnedRange]]:
    """Plans of two buckets of 12 and 5 elements among some of these tasks."""

    @st.composite
    def draw_plan(draw: st.DrawFn) -> list[OwnedRange]:
        found = []
        for bucket, length in enumerate((12, 5)):
            cuts = sorted(draw(st.sets(st.integers(1, length - 1), max_size=4)))
            for begin, end in pairwise([0, *cuts, length]):
                found.append((Range(bucket, begin, end), draw(st.integers(0, len(tasks) - 1))))
        return holdings(found, tasks, range(len(tasks)))

    return draw_plan()


@given(plans("abcd"), st.sets(st.sampled_from("abcd"), max_size=2), st.data())
def test_every_element_gets_its_state_from_a_living_holder(
    old: list[OwnedRange], lost: set[str], data: st.DataObject
) -> None:
    new = data.draw(plans([task for task in "abcde" if task not in lost]))
    whole = {(bucket, element) for bucket, n in enumerate((12, 5)) for element in range(n)}
    before = {task: _elements(held_by(task, old)) for task in "abcde" if task not in lost}
    try:
        found = moves(old, new, lost)
    except LostShardError:
        assert set().union(*before.values()) != whole
        return
    assert set().union(*before.values()) == whole
    after = {task: set(elements) for task, elements in before.items()}
    for move in found:
        assert _elements([move.range]) <= before[move.source]
        assert not _elements([move.range]) & after[move.target]
        after[move.target] |= _elements([move.range])
    assert all(_elements(held_by(task, new)) <= after[task] for task in after)
    owned = [element for holding in new for element in _elements([holding.range])]
    assert sorted(owned) == sorted(whole)


def _elements(found: Sequence[Range]) -> set[tuple[int, int]]:
    return {(range_.tensor, element) for range_ in found for element in range(range_.begin, range_.end)}


def test_pieces_from_others_and_ones_own_are_joined_whatever_device_they_lie_on() -> None:
    own = Piece(0, 0, 2, {"value": torch.zeros(2, device="meta")})
    received = Piece(0, 2, 5, {"value": torch.zeros(3)})
    found = joined([own, received], 0, 0, 5).state["value"]
    assert found.device.type == "meta"
    assert found.shape == (5,)
