"""Hugging Face's datasets: by index and as streams of shards."""

from typing import Any

import pytest

datasets = pytest.importorskip("datasets", reason="pip install datasets")

from muster.runtime.data.feed import Leased  # noqa: E402
from muster.runtime.data.fingerprint import fingerprint  # noqa: E402
from muster.runtime.data.given import DataOptions, feed_of  # noqa: E402
from muster.runtime.data.whole_stream import WholeStream  # noqa: E402
from tests.runtime.test_given import epoch_of  # noqa: E402

COUNT = 24


def made() -> Any:
    return datasets.Dataset.from_dict(
        {"n": list(range(COUNT)), "text": [f"t{i}" for i in range(COUNT)]}
    )


def numbers(batch: Any) -> Any:
    """The samples' own numbers as a batch."""
    import torch

    return torch.tensor([int(one["n"]) for one in batch])


@pytest.mark.parametrize("loaders", [0, 2])
def test_by_index_it_is_a_dataset_like_any_other(loaders: int) -> None:
    options = DataOptions(batch=8, collate=numbers, loaders=loaders)
    feed = feed_of(made().with_format("torch"), options, pin=False)[0]
    steps = epoch_of(feed)
    assert [len(step) for step in steps] == [8, 8, 8]
    assert sorted(one for step in steps for one in step) == list(range(COUNT))


def test_two_workers_with_other_rows_are_told_apart() -> None:
    one, other = fingerprint(made()), fingerprint(made().map(lambda row: {"n": row["n"] + 1}))
    assert "other contents" in one.differs(other)
    assert not one.differs(fingerprint(made()))


def test_as_a_stream_it_is_leased_by_its_own_shards() -> None:
    stream = made().to_iterable_dataset(num_shards=4).shuffle(seed=1, buffer_size=8)
    feed = feed_of(stream, DataOptions(batch=8, collate=numbers, epochs=1), pin=False)[0]
    assert isinstance(feed, Leased)
    assert sorted(one for step in epoch_of(feed) for one in step) == list(range(COUNT))


def test_a_stream_of_one_shard_is_read_by_every_worker() -> None:
    stream = made().to_iterable_dataset()
    feed = feed_of(stream, DataOptions(batch=8, collate=numbers), pin=False)[0]
    assert isinstance(feed, WholeStream)
    assert [len(step) for step in epoch_of(feed)] == [8, 8, 8]
