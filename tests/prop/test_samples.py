"""Over any history of resizes and lost steps every sample is taken exactly once in an epoch."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.runtime.data.sampled import SampledOrder
from muster.runtime.data.samples import Order, Position, cut

EVERY = settings(max_examples=200, deadline=None, derandomize=True, database=None)


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt at a step: the shares it is cut by (changed: a resize), and whether it is lost."""

    weights: tuple[int, ...]
    lost: bool


ATTEMPTS = st.lists(
    st.builds(
        Step,
        st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any).map(tuple),
        st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


def shared(batch: int, weights: tuple[int, ...]) -> tuple[int, ...]:
    """Shares of a full batch."""
    return tuple(count for _, count in cut(batch, weights))


@EVERY
@given(st.data(), st.integers(1, 60), st.integers(0, 9), st.booleans(), ATTEMPTS)
def test_every_sample_exactly_once_in_each_epoch(
    data: st.DataObject, count: int, seed: int, shuffle: bool, attempts: list[Step]
) -> None:
    batch = data.draw(st.integers(1, count))
    epochs = 2
    position = Position()
    seen: Counter[tuple[int, int]] = Counter()
    turn = 0
    while position.epoch < epochs:
        # Attempts are gone through again and again; only the first 40 are lost, so the history ends.
        attempt = attempts[turn % len(attempts)]
        turn += 1
        # Each worker has an order of its own, made when it joined.
        taken = []
        for first, size in cut(
            Order(count, batch, seed, shuffle).size(position), shared(batch, attempt.weights)
        ):
            ids = Order(count, batch, seed, shuffle).ids(position)
            taken += ids[first : first + size].tolist()
        if attempt.lost and turn <= 40:
            continue
        seen.update((position.epoch, sample) for sample in taken)
        position = Order(count, batch, seed, shuffle).after(position)
    assert seen == Counter({(epoch, sample): 1 for epoch in range(epochs) for sample in range(count)})


@EVERY
@given(st.integers(0, 500), st.lists(st.integers(0, 50), min_size=1, max_size=9).filter(any))
def test_a_cut_leaves_no_gap_and_no_overlap(total: int, shares: list[int]) -> None:
    parts = cut(total, shares)
    assert [first for first, _ in parts] == [
        sum(size for _, size in parts[:rank]) for rank in range(len(parts))
    ]
    assert sum(size for _, size in parts) == total
    # Nobody is a whole sample away from its proportion.
    whole = sum(shares)
    assert all(
        abs(size - total * share / whole) < 1 for (_, size), share in zip(parts, shares, strict=True)
    )


@EVERY
@given(
    count=st.integers(2, 60),
    own=st.integers(1, 12),
    drop_last=st.booleans(),
    sampled=st.booleans(),
    batches=st.lists(st.integers(0, 40), min_size=1, max_size=30),
)
def test_a_batch_that_changes_takes_every_sample_once(
    count: int, own: int, drop_last: bool, sampled: bool, batches: list[int]
) -> None:
    own = min(own, count)
    order = (
        SampledOrder(lambda epoch: list(range(count)), count, own, 0, drop_last)
        if sampled
        else Order(count, own, 0, drop_last=drop_last)
    )
    position, seen = Position(), list[int]()
    for _ in range(3):
        epoch, seen = position.epoch, []
        while position.epoch == epoch:
            order.batch = own + batches[position.step % len(batches)]
            ids = order.ids(position).tolist()
            assert len(ids) <= order.batch
            assert len(ids) >= own or not drop_last
            seen += ids
            position = order.after(position)
        assert len(set(seen)) == len(seen)
        assert count - len(seen) < (own if drop_last else 1)
    assert position.seen >= 3 * (count - own)
