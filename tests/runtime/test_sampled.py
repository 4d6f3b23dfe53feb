"""Samplers: the same ids on every worker and after a restart, each as often as the sampler says."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)

from muster.runtime.data.sampled import SampledOrder
from muster.runtime.data.samples import Position
from muster.runtime.errors import BadTrainingError

COUNT = 20
WEIGHTS = [float(i % 3) for i in range(COUNT)]


def taken(order: SampledOrder, epoch: int) -> list[list[int]]:
    """The batches of an epoch."""
    position, batches = Position(epoch), []
    while position.epoch == epoch:
        batches.append(order.ids(position).tolist())
        position = order.after(position)
    return batches


class ByLength:
    """Batches of samples of similar length, in another order in every epoch; not a class of torch's."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[list[int]]:
        batches = [[0, 1, 2], [3, 4, 5, 6, 7], [8, 9], [10, 11, 12, 13]]
        random.Random(self.epoch).shuffle(batches)
        yield from batches


SAMPLERS: dict[str, Any] = {
    "weighted": lambda: WeightedRandomSampler(WEIGHTS, COUNT),
    "weighted, own generator": lambda: WeightedRandomSampler(
        WEIGHTS, COUNT, generator=torch.Generator().manual_seed(4)
    ),
    "with replacement": lambda: RandomSampler(range(COUNT), replacement=True),
    "function of torch": lambda: lambda epoch: torch.randperm(COUNT)[: 10 + epoch],
    "function of random": lambda: lambda epoch: random.sample(range(COUNT), 10 + epoch),
    "function of numpy": lambda: lambda epoch: numpy.random.permutation(COUNT),
    "batches": lambda: BatchSampler(RandomSampler(range(COUNT)), 6, drop_last=False),
    "batches by length": ByLength,
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_another_worker_and_a_later_run_draw_the_same(name: str) -> None:
    first = SampledOrder(SAMPLERS[name](), COUNT, 6, seed=3)
    epochs = [taken(first, epoch) for epoch in (0, 1, 2)]
    torch.rand(7)
    random.random()
    resumed = SampledOrder(SAMPLERS[name](), COUNT, 6, seed=3)
    assert taken(resumed, 2) == epochs[2]
    assert [taken(resumed, epoch) for epoch in (0, 1, 2)] == epochs
    assert epochs[0] != epochs[1]


def test_drawing_leaves_the_generators_of_the_training_alone() -> None:
    torch.manual_seed(1)
    random.seed(1)
    expected = torch.rand(2).tolist(), random.random()
    torch.manual_seed(1)
    random.seed(1)
    SampledOrder(lambda epoch: [*random.sample(range(COUNT), 4), int(torch.randint(4, ()))], COUNT, 2)
    assert (torch.rand(2).tolist(), random.random()) == expected


def test_seeds_and_own_generators_have_orders_of_their_own() -> None:
    def drawn(seed: int, own: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(own)
        sampler = RandomSampler(range(COUNT), generator=generator)
        return taken(SampledOrder(sampler, COUNT, COUNT, seed), 0)

    assert drawn(0, 1) != drawn(0, 2)
    assert drawn(0, 1) != drawn(1, 1)


def test_a_batch_sampler_says_how_large_each_step_is() -> None:
    order = SampledOrder(ByLength(), COUNT, 0)
    assert order.batch == 5
    assert order.steps_per_epoch == 4
    assert sorted(map(len, taken(order, 1))) == [2, 3, 4, 5]
    assert sorted(chain.from_iterable(taken(order, 1))) == list(range(14))


def test_the_last_ids_are_a_smaller_batch_or_dropped() -> None:
    assert taken(SampledOrder(SequentialSampler(range(5)), 5, 2), 0) == [[0, 1], [2, 3], [4]]
    assert taken(SampledOrder(SequentialSampler(range(5)), 5, 2, drop_last=True), 0) == [[0, 1], [2, 3]]


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=30).filter(len), min_size=1, max_size=4), st.data()
)
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_every_id_exactly_as_often_as_the_sampler_says(
    epochs: list[list[int]], data: st.DataObject
) -> None:
    batch = data.draw(st.integers(1, 7))
    order = SampledOrder(lambda epoch: epochs[epoch % len(epochs)], 10, batch)
    position, seen = Position(), Counter[tuple[int, int]]()
    while position.epoch < len(epochs):
        # Another worker, which joined just now, has the same.
        other = SampledOrder(lambda epoch: epochs[epoch % len(epochs)], 10, batch)
        assert torch.equal(order.ids(position), other.ids(position))
        seen.update((position.epoch, int(one)) for one in order.ids(position))
        position = order.after(position)
    assert seen == Counter((epoch, one) for epoch, ids in enumerate(epochs) for one in ids)


@pytest.mark.parametrize(
    ("sampler", "batch", "words"),
    [
        (DistributedSampler(range(COUNT), 2, 0), 4, "divides each step itself: leave it out"),
        (lambda epoch: [0, COUNT], 2, "gave id 20 in epoch 0, and the dataset has 20 samples"),
        (lambda epoch: [-1, 1], 2, "gave id -1"),
        (lambda epoch: [], 2, "gave 0 ids for epoch 0"),
        (SequentialSampler(range(COUNT)), 0, "global_batch= is missing"),
        (7, 2, "sampler= is a int"),
    ],
)
def test_what_is_no_sampler_is_refused(sampler: Any, batch: int, words: str) -> None:
    with pytest.raises(BadTrainingError, match=words):
        SampledOrder(sampler, COUNT, batch)


def test_an_endless_sampler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.runtime.data.sampled.ENDLESS", 1000)

    def forever(epoch: int) -> Iterator[int]:
        while True:
            yield 1

    with pytest.raises(BadTrainingError, match="without an end"):
        SampledOrder(forever, COUNT, 4)


def test_a_position_beyond_the_ids_says_that_the_sampler_has_changed() -> None:
    with pytest.raises(BadTrainingError, match="started with another sampler"):
        SampledOrder(SequentialSampler(range(4)), 4, 2).ids(Position(0, 8, 4))
