"""What `ctx.data` takes: datasets, samplers, DataLoaders, streams; and what it refuses."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)

from muster.runtime.data.feed import Feed, Indexed, Leased
from muster.runtime.data.given import DataOptions, feed_of
from muster.runtime.data.samples import Position
from muster.runtime.data.streams import FileShards
from muster.runtime.data.whole_stream import WholeStream
from muster.runtime.errors import BadTrainingError
from muster.runtime.members.ballot import Vote

DATA = TensorDataset(torch.arange(10))


class Plain(IterableDataset[Any]):
    """A stream that yields everything to everybody."""

    def __init__(self, count: int = 10) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        yield from range(self.count)


class Divided(Plain):
    """One that divides itself, as torch's documentation says."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        yield from range(info.id, self.count, info.num_workers) if info else range(self.count)


class Itself(Divided):
    """The same, as its own iterator."""

    def __iter__(self) -> Any:
        info = get_worker_info()
        assert info is not None
        self.next, self.stride = info.id, info.num_workers
        return self

    def __next__(self) -> int:
        if self.next >= self.count:
            raise StopIteration
        self.next += self.stride
        return self.next - self.stride


def epoch_of(feed: Feed, epoch: int = 0, workers: int = 2) -> list[list[int]]:
    """The samples of each step of an epoch, over all workers."""
    position = Position(epoch)
    steps: list[list[int]] = []
    tasks = [f"worker-{rank}" for rank in range(workers)]
    feed.staff(tasks)
    shares = [feed.batch // workers] * workers
    while position.epoch == epoch and len(steps) < 100:
        step: list[int] = []
        votes = []
        for rank, task in enumerate(tasks):
            part = feed.part(position, shares, rank, task)
            votes.append(Vote(part.count, able=1.0, finished=part.finished, far=part.far))
            batch = feed.load(position, part)
            values = batch[0] if isinstance(batch, list) else batch
            step += values.tolist() if part.count else []
        steps.append(step)
        position = feed.after(position, tasks, votes)
    feed.close()
    return steps


def fed(dataset: Any, **options: Any) -> list[list[int]]:
    return epoch_of(feed_of(dataset, DataOptions(**options), pin=False)[0])


def test_a_dataloader_without_shuffling() -> None:
    assert fed(DataLoader(DATA, batch_size=4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert fed(DataLoader(DATA, batch_size=4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_shuffling_dataloader_is_as_good_as_its_dataset() -> None:
    assert fed(DataLoader(DATA, 4, shuffle=True), seed=3) == fed(DATA, batch=4, seed=3)


def test_what_is_given_beside_a_dataloader_counts_more() -> None:
    assert [len(step) for step in fed(DataLoader(DATA, batch_size=4), batch=6)] == [6, 4]


@pytest.mark.parametrize("loaders", [0, 2])
def test_a_dataloader_with_a_sampler_collate_and_workers(loaders: int) -> None:
    sampler = WeightedRandomSampler([0.0, 1.0] * 5, 12)
    loader = DataLoader(
        DATA,
        4,
        sampler=sampler,
        collate_fn=lambda samples: torch.tensor([int(one[0]) + 100 for one in samples]),
        num_workers=loaders,
    )
    steps = fed(loader)
    assert [len(step) for step in steps] == [4, 4, 4]
    assert all(one % 2 == 1 and one > 100 for step in steps for one in step)


def test_a_dataloader_with_a_batch_sampler() -> None:
    loader = DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 6, False))
    assert fed(loader) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]

    class Odd(BatchSampler):
        def __iter__(self) -> Any:
            yield from ([0], [1, 2, 3], [4, 5])

        def __len__(self) -> int:
            return 3

    assert fed(DataLoader(DATA, batch_sampler=Odd(RandomSampler(DATA), 1, False))) == [
        [0],
        [1, 2, 3],
        [4, 5],
    ]


def test_a_random_dataset_is_seeded_by_sample_without_being_asked() -> None:
    class Noise(TensorDataset):
        def __getitem__(self, i: Any) -> Any:
            return torch.randint(1 << 30, ())

    one, other = (fed(Noise(torch.arange(8)), batch=4, seed=5) for _ in range(2))
    assert one == other
    assert fed(Noise(torch.arange(8)), batch=4, seed=6) != one


def test_a_stream_that_divides_itself_is_leased_by_shard() -> None:
    for kind in (Divided, Itself):
        steps = fed(kind(10), batch=4, shards=3, epochs=1)
        assert sorted(one for step in steps for one in step) == list(range(10))
    feed = feed_of(DataLoader(Divided(), 4, num_workers=2), DataOptions(), pin=False)[0]
    assert isinstance(feed, Leased)


def test_a_stream_without_shards_is_read_whole_by_every_worker() -> None:
    assert fed(Plain(), batch=4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert fed(Plain(), batch=4, drop_last=True) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert fed(Plain(8), batch=4) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert fed((n for n in range(3)), batch=2) == [[0, 1], [2]]


def test_a_stream_continues_where_others_are() -> None:
    feed = WholeStream(Plain(), 4)
    there = Position(3, 8, 40)
    assert feed.load(there, feed.part(there, [3, 1], 0, "")).tolist() == [8, 9]
    back = Position(3, 4, 39)
    assert feed.load(back, feed.part(back, [3, 1], 1, "")).tolist() == [7]


def test_a_shuffled_stream_is_the_same_on_every_worker() -> None:
    class Shuffled(IterableDataset[Any]):
        def __iter__(self) -> Iterator[int]:
            yield from torch.randperm(12).tolist()
            yield int(torch.randint(100, ()))

    torch.manual_seed(1)
    one = fed(Shuffled(), batch=4, seed=2)
    torch.manual_seed(2)
    assert fed(Shuffled(), batch=4, seed=2) == one
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(2)))


def test_steps_of_a_stream_that_differ_are_told_apart() -> None:
    one, other = WholeStream(Plain(), 4), WholeStream((n + 1 for n in range(10)), 4)
    assert one.drawn(Position()) == WholeStream(Plain(), 4).drawn(Position())
    assert one.drawn(Position()) != other.drawn(Position())


class Bare:
    """Neither a length nor an iterator."""


@pytest.mark.parametrize(
    ("made", "options", "words"),
    [
        (lambda: DATA, {}, "global_batch= is missing"),
        (lambda: DATA, {"batch": 11}, "10 samples, fewer than the global batch of 11"),
        (lambda: DATA, {"batch": 2, "shards": 2}, "shards= is for streams: TensorDataset has len"),
        (lambda: DataLoader(DATA, batch_size=None), {}, "batch_size=None"),
        (Plain, {"batch": 2, "sampler": lambda epoch: [1]}, "sampler= needs a dataset with len"),
        (Plain, {"batch": 2, "loaders": 1}, "loaders= needs a dataset with len"),
        (Plain, {"batch": 2, "shards": 2}, "shards 0 and 1 of Plain begin with the same samples"),
        (Bare, {"batch": 2}, "Bare has no length and cannot be iterated"),
    ],
)
def test_what_cannot_be_taken_is_refused(
    made: Callable[[], Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadTrainingError, match=words):
        feed_of(made(), DataOptions(**options), pin=False)


def test_an_empty_stream_is_an_error_and_not_endless() -> None:
    feed = feed_of(Plain(0), DataOptions(batch=2), pin=False)[0]
    with pytest.raises(BadTrainingError, match="empty, or shorter"):
        feed.example()


def test_a_last_batch_smaller_than_the_workers_leaves_some_with_a_stand_in() -> None:
    feed = feed_of(DATA, DataOptions(batch=9, shuffle=False), pin=False)[0]
    assert isinstance(feed, Indexed)
    last = Position(0, 9, 1)
    parts = [feed.part(last, [3, 3, 3], rank, "") for rank in range(3)]
    assert sorted(part.count for part in parts) == [0, 0, 1]
    idle = next(part for part in parts if not part.count)
    # BatchNorm needs two rows.
    assert [len(column) for column in feed.load(last, idle)] == [2]
    feed.close()


class Files:
    """Shards of a number of samples each: (shard, 0), (shard, 1), ..."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes

    def shards(self) -> int:
        return len(self.sizes)

    def shard(self, i: int) -> Iterator[int]:
        yield from (100 * i + n for n in range(self.sizes[i]))


def test_files_are_read_one_after_another() -> None:
    files = {"a.tar": [1, 2, 3], "b.tar": [4, 5], "c.tar": []}
    steps = fed(FileShards(sorted(files), lambda name: files[name]), batch=2, epochs=1)
    assert sorted(one for step in steps for one in step) == [1, 2, 3, 4, 5]


def test_empty_shards_are_passed_over_and_nothing_but_empty_ones_is_an_error() -> None:
    assert sorted(one for step in fed(Files(0, 3, 0), batch=2, epochs=1) for one in step) == [
        100,
        101,
        102,
    ]
    feed = feed_of(Files(0, 0), DataOptions(batch=2), pin=False)[0]
    with pytest.raises(BadTrainingError, match="all shards of the dataset are empty"):
        epoch_of(feed)


def test_too_few_shards_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    fed(Files(9), batch=4, epochs=1)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the dataset has 1 shards for 2 workers"
    ]


def test_samples_that_will_be_seen_again_are_said(caplog: pytest.LogCaptureFixture) -> None:
    feed = feed_of(Files(8, 8), DataOptions(batch=4), pin=False)[0]
    feed.staff(["worker-0", "worker-1"])
    parts = [feed.part(Position(), [2, 2], rank, f"worker-{rank}") for rank in (1, 0)]
    votes = [Vote(part.count, able=1.0, finished=part.finished, far=part.far) for part in parts]
    feed.after(Position(), ["worker-0", "worker-1"], votes)
    feed.staff(["worker-0"])
    (record,) = caplog.records
    assert "worker-1 left shard" in record.message
    assert "2 samples are seen again (at least once" in record.message
