"""Which samples a step takes, and how they are cut among the workers."""

from itertools import chain

import pytest
import torch

from muster.runtime.data.samples import Order, Position, cut, mixed_seed
from muster.runtime.errors import BadTrainingError


def taken(order: Order, epoch: int) -> list[list[int]]:
    """The batches of an epoch."""
    position, batches = Position(epoch), []
    while position.epoch == epoch:
        batches.append(order.ids(position).tolist())
        position = order.after(position)
    return batches


def test_an_epoch_takes_every_sample_once_and_ends_with_a_smaller_batch() -> None:
    batches = taken(Order(10, 4, seed=7), epoch=0)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(chain.from_iterable(batches)) == list(range(10))


def test_without_the_last_batch_all_batches_are_full() -> None:
    order = Order(10, 4, seed=7, drop_last=True)
    assert [len(batch) for batch in taken(order, epoch=0)] == [4, 4]
    assert order.steps_per_epoch == 2


def test_steps_of_an_epoch_count_the_smaller_last_one() -> None:
    assert Order(10, 4).steps_per_epoch == 3
    assert Order(8, 4).steps_per_epoch == 2


def test_epochs_and_seeds_have_orders_of_their_own_and_keep_them() -> None:
    order = Order(100, 100, seed=1)
    first, second = taken(order, 0), taken(order, 1)
    assert first != second
    assert taken(Order(100, 100, seed=2), 0) != first
    assert taken(Order(100, 100, seed=1), 0) == first
    assert [taken(order, epoch) for epoch in (5, 6, 7, 0)][-1] == first


def test_an_unshuffled_order_is_the_datasets_own() -> None:
    order = Order(5, 2, shuffle=False)
    assert taken(order, 0) == taken(order, 3) == [[0, 1], [2, 3], [4]]


def test_a_position_moves_by_a_step_and_into_the_next_epoch() -> None:
    order = Order(5, 2)
    second = order.after(Position())
    assert second == Position(epoch=0, cursor=2, step=1)
    assert order.after(order.after(second)) == Position(epoch=1, cursor=0, step=3)


def test_asking_again_gives_the_same_samples() -> None:
    order = Order(64, 16, seed=3)
    there = Position(2, 16, 9)
    before = order.ids(there)
    order.ids(order.after(there))
    assert torch.equal(order.ids(there), before)


def test_a_dataset_smaller_than_the_batch_is_refused_with_both_numbers() -> None:
    with pytest.raises(BadTrainingError, match=r"100 samples.*batch of 256.*100 at most"):
        Order(100, 256)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(BadTrainingError, match="at least 1"):
        Order(100, 0)


def test_a_position_beyond_the_dataset_says_that_the_data_have_changed() -> None:
    with pytest.raises(BadTrainingError, match=r"sample 64 of epoch 1.*has 50"):
        Order(50, 10).ids(Position(1, 64, 10))


def test_a_full_batch_is_cut_by_the_shares_as_they_are() -> None:
    assert cut(15, (8, 4, 2, 1)) == ((0, 8), (8, 4), (12, 2), (14, 1))
    assert cut(4, (3, 0, 1)) == ((0, 3), (3, 0), (3, 1))


def test_a_smaller_batch_is_cut_in_proportion_by_largest_remainder() -> None:
    # 7 of 15: 3.73, 1.87, 0.93, 0.47. Whole: 3, 1, 0, 0; three more go to .93, .87 and .73.
    assert [count for _, count in cut(7, (8, 4, 2, 1))] == [4, 2, 1, 0]


def test_nobody_gets_more_than_its_share_of_a_smaller_batch() -> None:
    for shares in ((8, 4, 2, 1), (5, 5, 5), (0, 1, 30), (1, 1, 1, 1, 9)):
        for total in range(sum(shares) + 1):
            counts = [count for _, count in cut(total, shares)]
            assert sum(counts) == total
            assert all(count <= share for count, share in zip(counts, shares, strict=True))


def test_shares_that_nobody_has_cannot_be_cut() -> None:
    with pytest.raises(ValueError, match="cannot be cut"):
        cut(4, (0, 0))


def test_a_samples_seed_depends_on_training_epoch_and_sample() -> None:
    seeds = {mixed_seed(s, e, i) for s in range(3) for e in range(3) for i in range(100)}
    assert len(seeds) == 900
    assert mixed_seed(1, 2, 3) == mixed_seed(1, 2, 3)
    torch.Generator().manual_seed(max(seeds))  # in torch's range
